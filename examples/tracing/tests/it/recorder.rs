//! Every span of this program, once it has ended.

use std::sync::LazyLock;

use anyhow::{Context, ensure};
use opentelemetry::trace::{SpanContext, SpanKind, TraceContextExt, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use postroom::MessageId;
use tracing::Span;
use tracing::level_filters::LevelFilter;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

static SPANS: LazyLock<InMemorySpanExporter> = LazyLock::new(|| {
    let spans = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    tracing_subscriber::registry().with(LevelFilter::INFO).with(layer).init();
    spans
});

/// A span to send in. The first one switches the recorder on.
pub(crate) fn sending() -> Span {
    LazyLock::force(&SPANS);
    tracing::info_span!("sending")
}

pub(crate) fn context_of(span: &Span) -> SpanContext {
    span.context().span().span_context().clone()
}

/// The one span that handled, or sent, this message.
pub(crate) fn handled(id: MessageId, kind: SpanKind) -> anyhow::Result<SpanData> {
    let id = id.to_string();
    let spans = SPANS.get_finished_spans()?;
    let mut found = spans.into_iter().filter(|span| {
        span.name == "handle" && span.span_kind == kind && attribute(span, "messaging.message.id") == Some(id.clone())
    });
    let span = found.next().with_context(|| format!("no {kind:?} span for {id}"))?;
    ensure!(found.next().is_none(), "two {kind:?} spans for {id}");
    Ok(span)
}

pub(crate) fn attribute(span: &SpanData, name: &str) -> Option<String> {
    span.attributes.iter().find(|attribute| attribute.key.as_str() == name).map(|found| found.value.to_string())
}

/// Fails unless the span has exactly this link.
pub(crate) fn check_link(span: &SpanData, sender: &SpanContext) -> anyhow::Result<()> {
    let [link] = span.links.links.as_slice() else { anyhow::bail!("{} links", span.links.links.len()) };
    let linked = (link.span_context.trace_id(), link.span_context.span_id());
    ensure!(sender.is_valid() && linked == (sender.trace_id(), sender.span_id()), "it is linked to another span");
    Ok(())
}
