//! The producer: orders and the messages about them, each pair in one transaction.

use futures_util::future::join_all;
use postroom::{NewMessage, SqliteStore};
use tokio::sync::watch;

use anyhow::Result;

use super::book::Book;
use super::gate::Gate;
use super::place::{DESTINATION, Place, TOPIC_ASYNC, TOPIC_BLOCKING};
use super::wire::{Stop, Word, say};

/// So many orders are placed at once: they share the fsyncs of the book and of the database.
const TOGETHER: usize = 32;
/// Every so manieth order is for the async handler.
const ASYNC_EVERY: u64 = 10;

/// Places orders as far as they are granted, until the grants end.
pub(crate) async fn run(place: &Place, gate: &Gate, mut granted: watch::Receiver<Option<u64>>) -> Result<()> {
    let (mut book, entries) = Book::open(&place.book_path())?;
    let store = place.orders().await?;
    let mut again = entries.unknown();
    again.iter().for_each(|_| say(&Word::Again));
    let mut next = entries.tried.last().map_or(0, |last| last + 1);
    say(&Word::Ready);
    loop {
        if next >= place.messages && again.is_empty() {
            say(&Word::Done);
        }
        let batch: Vec<u64> = if again.is_empty() {
            let Some(limit) = limit(&mut granted, next, place.messages).await else { return Ok(()) };
            (next..limit).take(TOGETHER).collect()
        } else {
            again.drain(..again.len().min(TOGETHER)).collect()
        };
        book.note_tried(&batch)?;
        let placed = join_all(batch.iter().map(|order| place_order(place, &store, *order))).await;
        gate.pass(Stop::Enqueued, "");
        let (mut stored, mut duplicates) = (Vec::new(), 0);
        for (order, placed) in batch.iter().zip(placed) {
            match placed {
                Ok(is_duplicate) => {
                    stored.push(*order);
                    duplicates += u32::from(is_duplicate);
                }
                Err(error) => {
                    say(&Word::Trouble(format!("order {order} was not placed: {error:#}")));
                    again.push(*order);
                }
            }
        }
        book.note_acknowledged(&stored)?;
        (0..duplicates).for_each(|_| say(&Word::Duplicate));
        next = batch.last().map_or(next, |last| next.max(last + 1));
    }
}

/// Waits until there is an order to place; none at the end.
async fn limit(granted: &mut watch::Receiver<Option<u64>>, next: u64, messages: u64) -> Option<u64> {
    let is_news = |granted: &Option<u64>| granted.is_none_or(|granted| granted.min(messages) > next);
    let limit = *granted.wait_for(is_news).await.ok()?;
    limit.map(|limit| limit.min(messages))
}

/// The order and the message about it, in one transaction. True when both were there before.
async fn place_order(place: &Place, store: &SqliteStore, order: u64) -> Result<bool> {
    let id = place.message_id(order)?;
    let topic = if order.is_multiple_of(ASYNC_EVERY) { TOPIC_ASYNC } else { TOPIC_BLOCKING };
    let message = NewMessage::new(topic, order.to_string()).id(id).to(DESTINATION);
    let row = (i64::try_from(order)?, id.to_string());
    let stored = store.write(move |tx| {
        let stored = tx.enqueue(&message)?;
        if !stored.duplicate {
            tx.execute("INSERT INTO orders (id, message_id) VALUES (?1, ?2)", (&row.0, &row.1))?;
        }
        Ok(stored)
    });
    Ok(stored.await?.duplicate)
}
