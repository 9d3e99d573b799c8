//! How cases wait and judge: for conditions, never for time.

use std::time::Duration;

use anyhow::{Context, bail};
use postroom::Message;
use postroom::operator::Record;

/// No condition of a case may take longer than this to come true.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pause between two looks.
const LOOK_MIN: Duration = Duration::from_millis(2);
const LOOK_MAX: Duration = Duration::from_millis(100);

/// Names the variable that makes the large cases this many times larger; 1 by default.
pub const SCALE_VARIABLE: &str = "POSTROOM_SCALE";

/// How many times larger the large cases are.
pub fn scale() -> u32 {
    std::env::var(SCALE_VARIABLE).ok().and_then(|scale| scale.parse().ok()).unwrap_or(1).max(1)
}

fn patience() -> Duration {
    PATIENCE * scale()
}

/// The message of a row that must be readable.
pub fn readable(record: &Record) -> anyhow::Result<&Message> {
    record.message().map_err(|why| anyhow::anyhow!("row {} cannot be read: {why}", record.seq()))
}

/// Waits until a condition holds; fails when it does not come true. The looks take at most half of the time: other
/// cases run beside this one.
pub async fn eventually<F, Fut>(what: &str, mut condition: F) -> anyhow::Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = anyhow::Result<bool>>,
{
    let waiting = async {
        loop {
            let asked = tokio::time::Instant::now();
            if condition().await? {
                return Ok(());
            }
            tokio::time::sleep_until(asked + 2 * asked.elapsed().clamp(LOOK_MIN, LOOK_MAX)).await;
        }
    };
    tokio::time::timeout(patience(), waiting).await.with_context(|| format!("in vain: {what}"))?
}

/// Waits for something that must happen.
pub async fn soon<T>(what: &str, event: impl Future<Output = T>) -> anyhow::Result<T> {
    tokio::time::timeout(patience(), event).await.with_context(|| format!("in vain: {what}"))
}

/// Fails unless a call was refused for that reason.
pub fn refused<T>(result: postroom::Result<T>, kind: postroom::ErrorKind, what: &str) -> anyhow::Result<()> {
    match result {
        Ok(_) => bail!("{what} was not refused"),
        Err(error) if error.kind() == kind => Ok(()),
        Err(error) => bail!("{what} was refused as {:?}, not {kind:?}: {error}", error.kind()),
    }
}
