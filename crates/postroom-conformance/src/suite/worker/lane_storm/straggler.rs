//! Transactions that write into lanes and stay open for a while, or are rolled back: handlers that enqueue.

use std::sync::Arc;
use std::time::Duration;

use postroom::queue::Topics;
use postroom::{Ctx, HandlerError, HandlerResult, Handlers, Message, MessageId, NewMessage, Worker, WorkerOptions};

use super::book::{Book, Written};
use super::rest;
use crate::harness::Testable;

pub(super) const TOPIC: &str = "straggler";
const LANES: u64 = 3;
/// Longer than many others take to commit. A file has one writer, and the others wait for it.
const OPEN: Duration = Duration::from_millis(15);

/// A worker for messages that name a lane: it and the next ones get one message each.
pub(super) fn worker<B: Testable>(store: B::Store, book: &Arc<Book>) -> anyhow::Result<Worker<B>> {
    let handlers = Handlers::<B>::new().state(book.clone()).on_topic(TOPIC, handle::<B>);
    let options = WorkerOptions::default().poll(Duration::from_millis(20)).leave(&Topics::only(["a"])?);
    Ok(Worker::outbox(store, handlers).options(options))
}

async fn handle<B: Testable>(ctx: &mut Ctx<B>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let book = ctx.state::<Arc<Book>>()?;
    let first: u64 = message.payload.parse().unwrap_or_default();
    let mut ids = Vec::new();
    for at in 0..LANES {
        let (id, lane) = (MessageId::new(), format!("lane-{}", first + at));
        let written = Written { from: book.moment(), to: u64::MAX, at: ids.len() };
        book.writes(id.to_string(), lane.clone(), written, None);
        ids.push(id.to_string());
        ctx.enqueue(NewMessage::new("a", "{}").id(id).lane(lane)).await?;
    }
    rest(OPEN).await;
    book.commits(ids.iter().map(String::as_str));
    if first.is_multiple_of(3) { Err(HandlerError::terminal("rolled back")) } else { Ok(None) }
}
