//! Where spans go. The rest of the program is in `main.rs`.

use anyhow::Result;
use opentelemetry_sdk::trace::SdkTracerProvider;

/// To a collector if the environment names one, else to the terminal.
pub fn provider() -> Result<SdkTracerProvider> {
    let provider = SdkTracerProvider::builder();
    let provider = match std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT") {
        Some(_) => provider.with_batch_exporter(opentelemetry_otlp::SpanExporter::builder().with_http().build()?),
        None => provider.with_simple_exporter(opentelemetry_stdout::SpanExporter::default()),
    };
    Ok(provider.build())
}

// The programs in the guide are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../guides/tracing.md")]
mod guide {}
