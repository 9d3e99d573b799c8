//! The results of the benchmark.

use std::time::Duration;

use serde::Serialize;

/// One row of the result.
#[derive(Serialize)]
pub(crate) struct Measured {
    pub(crate) what: String,
    pub(crate) messages: u64,
    /// `None` where a rate makes no sense.
    pub(crate) per_second: Option<f64>,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
}

impl Measured {
    pub(super) fn new(what: impl Into<String>, messages: u64) -> Self {
        Self { what: what.into(), messages, per_second: None, p50_ms: None, p99_ms: None }
    }

    pub(super) fn over(mut self, took: Duration) -> Self {
        self.per_second = Some(self.messages as f64 / took.as_secs_f64().max(1e-9));
        self
    }

    /// Adds the latency of each message.
    pub(super) fn each(mut self, mut took: Vec<Duration>) -> Self {
        took.sort_unstable();
        self.p50_ms = quantile(&took, 50);
        self.p99_ms = quantile(&took, 99);
        self
    }
}

/// The given percentile.
fn quantile(sorted: &[Duration], hundredths: usize) -> Option<f64> {
    let rank = (sorted.len() * hundredths).div_ceil(100).max(1);
    sorted.get(rank - 1).map(|took| took.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let took: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!((quantile(&took, 50), quantile(&took, 99)), (Some(100.0), Some(198.0)));
        assert_eq!((quantile(&took[..1], 50), quantile(&took[..1], 99)), (Some(1.0), Some(1.0)));
        assert_eq!(quantile(&[], 50), None);
    }

    #[test]
    fn a_rate_is_by_the_second() {
        let measured = Measured::new("a", 500).over(Duration::from_millis(250));
        assert_eq!(measured.per_second, Some(2000.0));
    }
}
