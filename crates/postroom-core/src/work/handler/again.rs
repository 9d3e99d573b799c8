//! Retries at once what the database rolled back: a deadlock, a lost race, or a commit that was not carried out.

use std::time::Duration;

use crate::support::clock::monotonic;
use crate::support::error::{Error, ErrorKind, Result};
use crate::work::handler::HOLD_MAX;

/// The number of tries before the error is returned.
const TRIES: u32 = 3;
/// The longest pause before the second try.
const PAUSE: Duration = Duration::from_millis(5);

/// Retries what the database rolled back, unless it took long: that may be why it was rolled back, and the caller has
/// waited enough.
pub async fn retry_conflicts<T, F: Future<Output = Result<T>>>(attempt: impl FnMut() -> F) -> Result<T> {
    retry(attempt, |_, took| took < HOLD_MAX).await
}

/// Retries while `is_worth_it` returns true for the error and the time it took.
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
