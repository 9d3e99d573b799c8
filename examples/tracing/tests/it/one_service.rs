//! Every way into the outbox, and every kind of handler.

use std::sync::Arc;

use anyhow::ensure;
use opentelemetry::trace::SpanKind;
use postroom::sqlite::Sqlite;
use postroom::store::{Memory, MemoryStore};
use postroom::{Ctx, HandlerResult, Handlers, Message, NewMessage, Outbox, Worker};
use tokio::sync::mpsc::unbounded_channel;
use tracing::Instrument;

use crate::recorder::{attribute, check_link, context_of, handled, sending};
use crate::{blocking, count, handle_one, order, run_until, store, waiting};

#[tokio::test]
async fn a_message_in_a_transaction_of_its_own() -> anyhow::Result<()> {
    let (span, (store, _folder)) = (sending(), store().await?);
    let message = order().correlation_id("basket-7");
    let id = message.message_id();
    Outbox::new(store.clone()).enqueue(message).instrument(span.clone()).await?;
    handle_one(&store, "order.placed").await?;
    let handled = handled(id, SpanKind::Consumer)?;
    check_link(&handled, &context_of(&span))?;
    for (name, value) in [
        ("messaging.system", "postroom"),
        ("messaging.operation.type", "process"),
        ("messaging.destination.name", "order.placed"),
        ("messaging.message.conversation_id", "basket-7"),
    ] {
        ensure!(attribute(&handled, name).as_deref() == Some(value), "{name} is not {value}");
    }
    Ok(())
}

#[tokio::test]
async fn a_message_in_the_writers_transaction() -> anyhow::Result<()> {
    let (span, (store, _folder)) = (sending(), store().await?);
    let message = order();
    let id = message.message_id();
    store.write(move |tx| tx.enqueue(&message)).instrument(span.clone()).await?;
    // On the same thread, but in nobody's span.
    let (plain, plain_id) = (order(), order().message_id());
    let plain = plain.id(plain_id);
    store.write(move |tx| tx.enqueue(&plain)).await?;
    let (tell, told) = unbounded_channel();
    let handlers = blocking(Handlers::new(), "order.placed", tell);
    run_until(Worker::outbox(store, handlers), told, 2).await?;
    check_link(&handled(id, SpanKind::Consumer)?, &context_of(&span))?;
    ensure!(handled(plain_id, SpanKind::Consumer)?.links.links.is_empty(), "it is linked to somebody else's span");
    Ok(())
}

#[tokio::test]
async fn a_message_in_a_transaction_of_the_callers() -> anyhow::Result<()> {
    let (span, (store, _folder)) = (sending(), store().await?);
    let message = order();
    let outbox = Outbox::new(store.clone());
    let mut conn = rusqlite::Connection::open(store.path())?;
    let tx = conn.transaction()?;
    let enqueued = span.in_scope(|| outbox.enqueue_in_blocking(&tx, &message))?;
    tx.commit()?;
    drop(enqueued);
    handle_one(&store, "order.placed").await?;
    check_link(&handled(message.message_id(), SpanKind::Consumer)?, &context_of(&span))
}

#[tokio::test]
async fn what_a_blocking_handler_sends_is_linked_to_it() -> anyhow::Result<()> {
    let (span, (store, _folder)) = (sending(), store().await?);
    let (first, second) = (order(), NewMessage::new("invoice.wanted", "{}"));
    let (first_id, second_id) = (first.message_id(), second.message_id());
    Outbox::new(store.clone()).enqueue(first).instrument(span.clone()).await?;
    let (tell, told) = unbounded_channel();
    let handlers = Handlers::new().on_topic_blocking("order.placed", move |ctx| {
        ctx.enqueue(&second)?;
        Ok(None)
    });
    run_until(Worker::outbox(store, blocking(handlers, "invoice.wanted", tell)), told, 1).await?;
    let first = handled(first_id, SpanKind::Consumer)?;
    check_link(&first, &context_of(&span))?;
    check_link(&handled(second_id, SpanKind::Consumer)?, &first.span_context)
}

struct Sends {
    outbox: Outbox,
    second: NewMessage,
    third: NewMessage,
}

async fn send_two(ctx: &mut Ctx<Sqlite>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    let sends = ctx.state::<Sends>()?;
    let (outbox, second, third) = (sends.outbox.clone(), sends.second.clone(), sends.third.clone());
    ctx.enqueue(second).await?;
    // The handler's transaction is also one of the caller's own.
    let enqueue = move |conn: &rusqlite::Connection| Ok(outbox.enqueue_in_blocking(conn, &third).map(drop));
    ctx.tx().await?.run(enqueue).await??;
    Ok(None)
}

fn told() -> NewMessage {
    NewMessage::new("told", "{}")
}

#[tokio::test]
async fn what_an_async_handler_sends_is_linked_to_it() -> anyhow::Result<()> {
    let (span, (store, _folder)) = (sending(), store().await?);
    let outbox = Outbox::new(store.clone());
    let sends = Sends { outbox: outbox.clone(), second: NewMessage::new("invoice.wanted", "{}"), third: told() };
    let (first, second, third) = (order(), &sends.second, &sends.third);
    let (first_id, second_id, third_id) = (first.message_id(), second.message_id(), third.message_id());
    outbox.enqueue(first).instrument(span.clone()).await?;
    let (tell, told) = unbounded_channel();
    let handlers = Handlers::new().state(sends).on_topic("order.placed", send_two);
    let handlers = blocking(blocking(handlers, "invoice.wanted", tell.clone()), "told", tell);
    run_until(Worker::outbox(store, handlers), told, 2).await?;
    let first = handled(first_id, SpanKind::Consumer)?;
    check_link(&first, &context_of(&span))?;
    check_link(&handled(second_id, SpanKind::Consumer)?, &first.span_context)?;
    check_link(&handled(third_id, SpanKind::Consumer)?, &first.span_context)
}

#[tokio::test]
async fn a_message_in_memory() -> anyhow::Result<()> {
    let (span, store) = (sending(), MemoryStore::new());
    let message = order();
    let id = message.message_id();
    Outbox::new(store.clone()).enqueue(message).instrument(span.clone()).await?;
    let (tell, told) = unbounded_channel();
    let handlers = Handlers::<Memory>::new().state(tell).on_topic("order.placed", waiting);
    tokio::time::timeout(crate::PATIENCE, Worker::outbox(store, handlers).run(count(told, 1))).await??;
    check_link(&handled(id, SpanKind::Consumer)?, &context_of(&span))
}

#[tokio::test]
async fn a_context_of_the_users_own_is_kept() -> anyhow::Result<()> {
    let (span, (store, _folder)) = (sending(), store().await?);
    let message = order().header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let id = message.message_id();
    Outbox::new(store.clone()).enqueue(message).instrument(span).await?;
    handle_one(&store, "order.placed").await?;
    let link = handled(id, SpanKind::Consumer)?.links.links[0].span_context.clone();
    ensure!(link.trace_id().to_string() == "4bf92f3577b34da6a3ce929d0e0e4736", "another trace");
    ensure!(link.span_id().to_string() == "00f067aa0ba902b7" && link.is_remote(), "another span");
    Ok(())
}

#[tokio::test]
async fn a_context_that_makes_no_sense_is_ignored() -> anyhow::Result<()> {
    let (_span, (store, _folder)) = (sending(), store().await?);
    let message = order().header("traceparent", "00-nonsense").header("tracestate", "\u{1F980}=".repeat(300));
    let id = message.message_id();
    Outbox::new(store.clone()).enqueue(message).await?;
    handle_one(&store, "order.placed").await?;
    ensure!(handled(id, SpanKind::Consumer)?.links.links.is_empty(), "it is linked to nonsense");
    Ok(())
}
