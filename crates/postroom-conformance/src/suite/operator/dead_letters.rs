//! The news of a death, in the transaction of that death.

use std::time::Duration;

use postroom::clock::Clock;
use postroom::message::OwnerToken;
use postroom::operator::{Filter, Record};
use postroom::queue::Queue;
use postroom::store::{MemoryStore, Store};
use postroom::{Inbox, NewMessage, Outbox};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Stage, readable};

cases! { dead_letters:
    both a_death_is_told_once_and_names_the_message ["SQM-3.4.4"];
    both an_expiry_is_told [];
    both other_content_for_a_dead_message_is_no_second_death [];
    both a_death_by_crashes_is_told [];
    both the_death_of_the_news_is_not_told [];
    sqlite the_news_shows_no_payload [];
}

/// A store beside the case's own that tells deaths under `news`.
async fn telling(h: &Harness) -> anyhow::Result<(Outbox, Inbox)> {
    if h.backend == "memory" {
        let store = MemoryStore::with_dead_letters(Clock::Manual(h.clock.clone()), Some("news".into()));
        return Ok((Outbox::new(store.clone()), Inbox::new(store)));
    }
    let store = h.place.sqlite_options().dead_letters("news").open().await?;
    Ok((Outbox::new(store.clone()), Inbox::new(store)))
}

async fn news(outbox: &Outbox) -> anyhow::Result<Vec<Record>> {
    Ok(outbox.queue().list(Filter::all().topic("news")).await?)
}

async fn a_death_is_told_once_and_names_the_message(h: &Harness) -> Verdict {
    let (outbox, inbox) = telling(h).await?;
    let draft = Draft::new("a");
    outbox.enqueue(draft.outgoing()).await?;
    inbox.enqueue(draft.incoming()?).await?;
    for (queue, expected) in [(inbox.queue(), 1), (outbox.queue(), 2)] {
        let lease = queue.claim(OwnerToken::new(), LEASE, 1).await?.claimed.remove(0).lease;
        assert_eq!(queue.fail([lease.clone()], "no such order").await?.applied, 1);
        assert_eq!(queue.fail([lease], "again").await?.lost, 1);
        assert_eq!(news(&outbox).await?.len(), expected);
    }
    for record in news(&outbox).await? {
        let told = readable(&record)?;
        assert!(told.payload.contains(&draft.id.to_string()), "the news does not name the message: {}", told.payload);
    }
    Ok(())
}

async fn an_expiry_is_told(h: &Harness) -> Verdict {
    let (outbox, _) = telling(h).await?;
    outbox.enqueue(NewMessage::new("a", "").expires_after(LEASE)).await?;
    h.clock.advance(LEASE);
    assert_eq!(outbox.queue().expire(10).await?, 1);
    assert_eq!(news(&outbox).await?.len(), 1);
    Ok(())
}

async fn other_content_for_a_dead_message_is_no_second_death(h: &Harness) -> Verdict {
    let (outbox, inbox) = telling(h).await?;
    let draft = Draft::new("a");
    inbox.enqueue(draft.incoming()?).await?;
    assert!(inbox.mark_dead(&draft.key()?, "x").await?);
    assert_eq!(news(&outbox).await?.len(), 1);
    inbox.enqueue(draft.clone().payload("other").incoming()?).await?;
    assert_eq!(news(&outbox).await?.len(), 1, "it was dead before");
    Ok(())
}

async fn a_death_by_crashes_is_told(h: &Harness) -> Verdict {
    let (outbox, inbox) = telling(h).await?;
    inbox.enqueue(Draft::new("a").incoming()?).await?;
    for _ in 0..postroom::queue::CRASHES_MAX {
        assert!(news(&outbox).await?.is_empty());
        assert_eq!(inbox.queue().claim(OwnerToken::new(), LEASE, 1).await?.claimed.len(), 1);
        h.clock.advance(LEASE + Duration::from_secs(60));
        let _ = inbox.queue().reap(10).await?;
    }
    assert_eq!(news(&outbox).await?.len(), 1);
    Ok(())
}

/// Otherwise a handler that cannot read the event would get new ones forever.
async fn the_death_of_the_news_is_not_told(h: &Harness) -> Verdict {
    let (outbox, _) = telling(h).await?;
    outbox.enqueue(Draft::new("a").outgoing()).await?;
    for _ in 0..3 {
        let claims = outbox.queue().claim(OwnerToken::new(), LEASE, 10).await?;
        let leases = claims.claimed.into_iter().map(|claimed| claimed.lease);
        let _ = outbox.queue().fail(leases, "x").await?;
    }
    assert_eq!(news(&outbox).await?.len(), 1);
    Ok(())
}

async fn the_news_shows_no_payload(stage: &Stage<postroom::sqlite::Sqlite>) -> Verdict {
    let (outbox, inbox) = telling(stage).await?;
    inbox.enqueue(Draft::new("a").payload("tweety-8d1f").incoming()?).await?;
    let lease = inbox.queue().claim(OwnerToken::new(), LEASE, 1).await?.claimed.remove(0).lease;
    assert_eq!(inbox.queue().fail([lease], "x").await?.applied, 1);
    let told = news(&outbox).await?.remove(0);
    let told = readable(&told)?;
    assert!(told.payload.contains("\"queue\":\"inbox\"") && !told.payload.contains("tweety"), "{}", told.payload);
    assert_eq!(stage.store.stats(Queue::Outbox).await?.ready, 1);
    Ok(())
}
