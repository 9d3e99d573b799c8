//! `/metrics`: the counters of the library, as Prometheus reads them.

use anyhow::{Context, Result};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use super::Desk;

/// Milliseconds, from what a row takes to what a lease lasts.
const MILLISECONDS: [f64; 12] = [0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1_000.0, 5_000.0, 30_000.0];
const RETRIES: [f64; 7] = [0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0];

/// Counts from now on, for the whole process.
pub(crate) fn install() -> Result<PrometheusHandle> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_ms".into()), &MILLISECONDS)
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_retry_count".into()), &RETRIES))
        .and_then(PrometheusBuilder::install_recorder)
        .context("the metrics cannot be counted")
}

/// What waits is counted when somebody asks, at most as often as health looks.
pub(super) async fn render(State(desk): State<Desk>) -> impl IntoResponse {
    let count = async {
        let counted = tokio::try_join!(desk.0.outbox.queue().measure(), desk.0.inbox.queue().measure());
        if let Err(error) = counted {
            tracing::warn!(%error, "what waits could not be counted for the metrics");
        }
    };
    desk.0.counted.get(count).await;
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], desk.0.metrics.render())
}
