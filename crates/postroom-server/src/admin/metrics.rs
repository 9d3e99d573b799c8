//! `/metrics`: the counters of the library, as Prometheus reads them.

use anyhow::{Context, Result};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use super::Desk;

/// Buckets in milliseconds, from the time of one row to the time of a lease.
const MILLISECONDS: [f64; 12] = [0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1_000.0, 5_000.0, 30_000.0];
const RETRIES: [f64; 7] = [0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0];

/// Starts to collect metrics for the whole process.
pub(crate) fn install() -> Result<PrometheusHandle> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_ms".into()), &MILLISECONDS)
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_retry_count".into()), &RETRIES))
        .and_then(PrometheusBuilder::install_recorder)
        .context("cannot start to collect metrics")
}

/// Ready messages are counted on request, but at most as often as for the health check.
pub(super) async fn render(State(desk): State<Desk>) -> impl IntoResponse {
    let asking = desk.clone();
    let count = async move {
        let counted = tokio::try_join!(asking.0.outbox.queue().measure(), asking.0.inbox.queue().measure());
        if let Err(error) = counted {
            tracing::warn!(%error, "cannot count ready messages for the metrics");
        }
    };
    desk.0.counted.get(count, |()| false).await;
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], desk.0.metrics.render())
}
