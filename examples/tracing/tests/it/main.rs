//! Links from the span that sends to the span that handles, with the real SDK.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod one_service;
mod recorder;
mod two_services;

use std::sync::Arc;
use std::time::Duration;

use postroom::handler::Backend;
use postroom::sqlite::{Sqlite, SqliteOptions, SqliteStore};
use postroom::{Ctx, HandlerResult, Handlers, Message, NewMessage, Worker};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// No test may take longer: something never came.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store in a folder that goes with it.
async fn store() -> anyhow::Result<(SqliteStore, tempfile::TempDir)> {
    let folder = tempfile::tempdir()?;
    let store = SqliteOptions::new(folder.path().join("shop.db")).deploy_schema(true).open().await?;
    Ok((store, folder))
}

/// A handler on the writer's thread that says when it ran.
fn blocking(handlers: Handlers<Sqlite>, topic: &str, tell: UnboundedSender<()>) -> Handlers<Sqlite> {
    handlers.on_topic_blocking(topic, move |_| {
        let _ = tell.send(());
        Ok(None)
    })
}

/// An async handler that says when it ran.
async fn waiting<B: Backend>(ctx: &mut Ctx<B>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    let _ = ctx.state::<UnboundedSender<()>>()?.send(());
    Ok(None)
}

/// Runs a worker until its handlers said so often that they ran.
async fn run_until(worker: Worker<Sqlite>, told: UnboundedReceiver<()>, times: usize) -> anyhow::Result<()> {
    Ok(tokio::time::timeout(PATIENCE, worker.run(count(told, times))).await??)
}

async fn count(mut told: UnboundedReceiver<()>, times: usize) {
    for _ in 0..times {
        told.recv().await;
    }
}

/// Handles one outbox message of this topic.
async fn handle_one(store: &SqliteStore, topic: &str) -> anyhow::Result<()> {
    let (tell, told) = unbounded_channel();
    run_until(Worker::outbox(store.clone(), blocking(Handlers::new(), topic, tell)), told, 1).await
}

fn order() -> NewMessage {
    NewMessage::new("order.placed", r#"{"order":7}"#)
}
