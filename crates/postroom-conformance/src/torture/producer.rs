//! The producer: orders and the messages about them, each pair in one transaction.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::join_all;
use tokio::sync::watch;

use super::book::Book;
use super::gate::Gate;
use super::ground::{Base, Ground, Placed};
use super::place::Place;
use super::wire::{Stop, Word, say};

/// A database that is away is not asked again at once.
const PAUSE: Duration = Duration::from_millis(20);

/// Places orders as far as they are granted, until the grants end.
pub(crate) async fn run<G: Ground>(
    place: &Place,
    gate: &Arc<Gate>,
    mut granted: watch::Receiver<Option<u64>>,
) -> Result<()> {
    let (mut book, entries) = Book::open(&place.book_path())?;
    let store = G::open(place, Base::Orders, false).await?;
    let mut desks: Vec<G::Desk> = (0..G::DESKS).map(|_| G::desk(place, &store)).collect();
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
            (next..limit).take(G::DESKS).collect()
        } else {
            again.drain(..again.len().min(G::DESKS)).collect()
        };
        book.note_tried(&batch)?;
        let placed =
            join_all(desks.iter_mut().zip(&batch).map(|(desk, order)| place_order::<G>(place, desk, *order, gate)));
        let placed = placed.await;
        gate.pass(Stop::Enqueued, "");
        let outcomes = batch.iter().copied().zip(placed);
        let (unknown, stored): (Vec<_>, Vec<_>) = outcomes.partition(|(_, placed)| *placed == Placed::Unknown);
        book.note_acknowledged(&stored.iter().map(|(order, _)| *order).collect::<Vec<_>>())?;
        stored.iter().filter(|(_, placed)| *placed == Placed::Known).for_each(|_| say(&Word::Duplicate));
        next = batch.last().map_or(next, |last| next.max(last + 1));
        if !unknown.is_empty() {
            again.extend(unknown.iter().map(|(order, _)| *order));
            super::pace::pause(PAUSE).await;
        }
    }
}

/// Waits until there is an order to place; none at the end.
async fn limit(granted: &mut watch::Receiver<Option<u64>>, next: u64, messages: u64) -> Option<u64> {
    let is_news = |granted: &Option<u64>| granted.is_none_or(|granted| granted.min(messages) > next);
    let limit = *granted.wait_for(is_news).await.ok()?;
    limit.map(|limit| limit.min(messages))
}

/// What is not known to be stored is placed again; it has the same id then.
async fn place_order<G: Ground>(place: &Place, desk: &mut G::Desk, order: u64, gate: &Arc<Gate>) -> Placed {
    let placed = match place.order(order) {
        Ok(order) => G::place_order(desk, &order, gate).await,
        Err(error) => Err(error),
    };
    match placed {
        Ok(Placed::Unknown) => {
            say(&Word::InDoubt);
            Placed::Unknown
        }
        Ok(placed) => placed,
        Err(error) => {
            say(&Word::Trouble(format!("{error:#}")));
            Placed::Unknown
        }
    }
}
