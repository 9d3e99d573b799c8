//! What every case measures with.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

const PRODUCERS: usize = 16;
/// Between two messages everybody goes to sleep.
const QUIET: Duration = Duration::from_millis(3);
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn best(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(0.0, f64::max)
}

/// Sixteen producers, each with one call at a time.
pub(crate) async fn per_second<F, Fut>(seconds: f64, enqueue: F) -> anyhow::Result<f64>
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = anyhow::Result<()>> + Send,
{
    let count = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let end = started + Duration::from_secs_f64(seconds);
    let mut producers = JoinSet::new();
    for _ in 0..PRODUCERS {
        let (enqueue, count) = (enqueue.clone(), count.clone());
        producers.spawn(async move {
            while Instant::now() < end {
                enqueue().await?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    while let Some(joined) = producers.join_next().await {
        joined??;
    }
    #[allow(clippy::cast_precision_loss, reason = "a count of messages")]
    let count = count.load(Ordering::Relaxed) as f64;
    Ok(count / started.elapsed().as_secs_f64())
}

pub(crate) async fn rate(messages: usize, work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<f64> {
    let started = Instant::now();
    work.await?;
    #[allow(clippy::cast_precision_loss, reason = "a count of messages")]
    let messages = messages as f64;
    Ok(messages / started.elapsed().as_secs_f64())
}

pub(crate) async fn quiet() {
    tokio::time::sleep_until(tokio::time::Instant::now() + QUIET).await;
}

pub(crate) fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}
