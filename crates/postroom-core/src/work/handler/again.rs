//! Trying again at once what the database rolled back: a deadlock, a lost race, a commit that was not carried out.

use std::time::Duration;

use crate::support::clock::monotonic;
use crate::support::error::{Error, ErrorKind, Result};
use crate::work::handler::HOLD_MAX;

/// It is tried so often before anybody hears of it.
const TRIES: u32 = 3;
/// So long at most before the second time.
const PAUSE: Duration = Duration::from_millis(5);

/// What took long is not tried again: perhaps it was rolled back because it did, and its caller has waited enough.
pub async fn retry_conflicts<T, F: Future<Output = Result<T>>>(attempt: impl FnMut() -> F) -> Result<T> {
    retry(attempt, |_, took| took < HOLD_MAX).await
}

/// Tries again as long as `is_worth_it` says so of the error and the time it took.
pub(super) async fn retry<T, F: Future<Output = Result<T>>>(
    mut attempt: impl FnMut() -> F,
    mut is_worth_it: impl FnMut(&Error, Duration) -> bool,
) -> Result<T> {
    let mut pause = PAUSE;
    for _ in 1..TRIES {
        let began = monotonic();
        match attempt().await {
            Err(error) if error.kind() == ErrorKind::NotCommitted && is_worth_it(&error, began.elapsed()) => {
                let jitter = pause.mul_f64(fastrand::f64());
                tokio::time::sleep_until((monotonic() + jitter).into()).await;
                pause *= 4;
            }
            other => return other,
        }
    }
    attempt().await
}
