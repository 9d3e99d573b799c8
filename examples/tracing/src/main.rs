//! An order is placed in one span and handled in another, which is linked to it; so is what the handler sends.
//!
//! `cargo run -p postroom-tracing` prints the spans. With a collector they go there:
//! `OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 cargo run -p postroom-tracing`

use anyhow::Result;
use opentelemetry::trace::TracerProvider;
use postroom::sqlite::{SqliteOptions, SqliteStore};
use postroom::{Handlers, NewMessage, Worker};
use postroom_tracing::provider;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[tokio::main]
async fn main() -> Result<()> {
    let provider = provider()?;
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    tracing_subscriber::registry().with(LevelFilter::INFO).with(layer).init();

    let store = SqliteOptions::new("tracing.db").deploy_schema(true).open().await?;
    place_order(&store, 7).await?;

    let (done, invoiced) = unbounded_channel();
    let handlers = Handlers::new()
        .on_topic_blocking("order.placed", |ctx| {
            // Carries the context of the span this handler runs in.
            ctx.enqueue(NewMessage::new("invoice.wanted", ctx.message().payload.clone()))?;
            Ok(None)
        })
        .on_topic_blocking("invoice.wanted", move |_| {
            let _ = done.send(());
            Ok(None)
        });
    Worker::outbox(store, handlers).run(first_of(invoiced)).await?;
    Ok(provider.shutdown()?)
}

/// What is enqueued inside carries the context of this span.
#[tracing::instrument(skip(store))]
async fn place_order(store: &SqliteStore, order: i64) -> postroom::Result<()> {
    let message = NewMessage::new("order.placed", format!(r#"{{"order":{order}}}"#));
    store.write(move |tx| tx.enqueue(&message)).await.map(drop)
}

async fn first_of(mut signals: UnboundedReceiver<()>) {
    signals.recv().await;
}
