//! How long handling took, from the histograms of `/metrics`.

/// Cumulative buckets: a bound in milliseconds and a count. The last bound is infinite.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Took(Vec<(f64, u64)>);

impl Took {
    /// Reads one histogram, over all its labels.
    pub(super) fn read(metrics: &str, name: &str) -> Self {
        let mut buckets: Vec<(f64, u64)> = Vec::new();
        let ours = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix("_bucket{"));
        for (labels, count) in ours.filter_map(|line| line.rsplit_once("} ")) {
            let bound = labels.split("le=\"").nth(1).and_then(|rest| rest.split('"').next());
            let (Some(Ok(bound)), Ok(count)) = (bound.map(str::parse::<f64>), count.trim().parse::<u64>()) else {
                continue;
            };
            match buckets.iter_mut().find(|(known, _)| *known == bound) {
                Some((_, total)) => *total += count,
                None => buckets.push((bound, count)),
            }
        }
        buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Self(buckets)
    }

    /// The counts since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let earlier = |bound: f64| before.0.iter().find(|(known, _)| *known == bound).map_or(0, |(_, count)| *count);
        Self(self.0.iter().map(|(bound, count)| (*bound, count.saturating_sub(earlier(*bound)))).collect())
    }

    /// A quantile in milliseconds; `None` without data.
    #[allow(clippy::cast_precision_loss, reason = "a chart needs no more than 52 bits")]
    pub(super) fn quantile(&self, part: f64) -> Option<f64> {
        let total = self.0.last().map(|(_, count)| *count).filter(|count| *count > 0)?;
        let wanted = part * total as f64;
        let (mut lower, mut below) = (0.0, 0_u64);
        for (bound, count) in &self.0 {
            if *count as f64 >= wanted {
                // Beyond the last bound, only the lower limit is known.
                let within = (wanted - below as f64) / (count - below).max(1) as f64;
                return Some(if bound.is_finite() { lower + (bound - lower) * within } else { lower });
            }
            (lower, below) = (*bound, *count);
        }
        Some(lower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "# TYPE rf_outbox_send_duration_ms histogram\n\
        rf_outbox_send_duration_ms_bucket{store=\"a\",le=\"1\"} 1\n\
        rf_outbox_send_duration_ms_bucket{store=\"a\",le=\"10\"} 3\n\
        rf_outbox_send_duration_ms_bucket{store=\"a\",le=\"+Inf\"} 4\n\
        rf_outbox_send_duration_ms_bucket{store=\"b\",le=\"1\"} 1\n\
        rf_outbox_send_duration_ms_bucket{store=\"b\",le=\"10\"} 1\n\
        rf_outbox_send_duration_ms_bucket{store=\"b\",le=\"+Inf\"} 2\n\
        rf_outbox_send_duration_ms_sum{store=\"a\"} 12.5\n\
        rf_inbox_process_duration_ms_bucket{store=\"a\",le=\"+Inf\"} 9\n";

    #[test]
    fn buckets_are_summed_over_their_labels() {
        let took = Took::read(METRICS, "rf_outbox_send_duration_ms");
        assert_eq!(took.0, [(1.0, 2), (10.0, 4), (f64::INFINITY, 6)]);
        assert_eq!(Took::read("", "rf_outbox_send_duration_ms"), Took::default());
    }

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let took = Took::read(METRICS, "rf_outbox_send_duration_ms");
        assert_eq!((took.quantile(0.5), took.quantile(0.95)), (Some(5.5), Some(10.0)));
        assert_eq!(took.since(&took).quantile(0.5), None, "nothing happened since");
    }
}
