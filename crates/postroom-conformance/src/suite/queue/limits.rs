//! What is refused, and that nothing is written then.

use std::time::Duration;

use postroom::message::{OwnerToken, WorkItemId};
use postroom::queue::{BATCH_MAX, LEASE_MAX, Settle};
use postroom::sql::TableNames;
use postroom::{ErrorKind, InboxKey, Incoming, MessageId, NewMessage, RetryPolicy, WorkerOptions};
use uuid::Uuid;

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Stage, Testable, readable, refused};
use crate::script::Script;

cases! { limits:
    both topics_have_a_length_and_a_grammar ["OBX-004", "OBX-007", "IBX-015", "IBX-020", "API-9.1"];
    both correlation_ids_have_a_length ["OBX-009"];
    both sources_and_message_ids_have_a_length_and_a_grammar [
        "IBX-009", "IBX-010", "IBX-011", "IBX-012", "IBX-016", "IBX-017", "API-9.1"];
    both destinations_have_a_length_and_a_grammar [];
    both a_payload_is_text_and_never_missing ["OBX-005", "IBX-018"];
    sqlite a_row_without_a_payload_cannot_be_written ["OBX-005", "IBX-018"];
    both headers_are_bounded [];
    both a_lease_is_longer_than_zero ["OBX-027", "IBX-040"];
    both a_batch_is_larger_than_zero ["OBX-028", "IBX-041"];
    both usual_leases_and_batches_are_taken ["OBX-097", "OBX-098", "IBX-119", "IBX-120"];
    both the_nil_owner_is_nobody ["IBX-043", "IBX-130"];
    both a_delay_of_zero_is_refused ["IBX-058"];
    both a_life_of_zero_is_refused [];
    both table_names_are_identifiers ["API-5.1"];
    worker a_worker_refuses_settings_that_cannot_work [];
}

fn bad_names() -> Vec<(&'static str, String)> {
    vec![
        ("an empty one", String::new()),
        ("one of 256 characters", "x".repeat(256)),
        ("one with a NUL", "a\0b".to_owned()),
        ("one with a blank at its end", "a ".to_owned()),
    ]
}

async fn nothing_was_written(h: &Harness) -> Verdict {
    for side in h.sides() {
        assert_eq!(side.rows().await?, 0, "something was written to the {}", side.queue);
    }
    Ok(())
}

async fn topics_have_a_length_and_a_grammar(h: &Harness) -> Verdict {
    for (what, topic) in bad_names() {
        let outgoing = h.outbox.enqueue(NewMessage::new(&topic, "{}")).await;
        refused(outgoing, ErrorKind::InvalidInput, what)?;
        let incoming = Incoming::new(InboxKey::new("shop", "1")?, &topic, "{}");
        refused(h.inbox.enqueue(incoming.clone()).await, ErrorKind::InvalidInput, what)?;
        refused(h.inbox.accept(incoming).await, ErrorKind::InvalidInput, what)?;
        nothing_was_written(h).await?;
    }
    let longest = "ä".repeat(255);
    for side in h.sides() {
        let seq = side.add(&longest).await?;
        assert_eq!(readable(&side.record(seq).await?)?.topic, longest);
    }
    Ok(())
}

async fn correlation_ids_have_a_length(h: &Harness) -> Verdict {
    let (long, longest) = ("x".repeat(256), "x".repeat(255));
    let message = NewMessage::new("a", "{}");
    refused(h.outbox.enqueue(message.clone().correlation_id(&long)).await, ErrorKind::InvalidInput, "256 characters")?;
    let incoming = Draft::new("a").incoming()?;
    refused(h.inbox.enqueue(incoming.clone().correlation_id(long)).await, ErrorKind::InvalidInput, "256 characters")?;
    nothing_was_written(h).await?;
    h.outbox.enqueue(message.correlation_id(&longest)).await?;
    h.inbox.enqueue(incoming.correlation_id(longest)).await?;
    Ok(())
}

async fn sources_and_message_ids_have_a_length_and_a_grammar(h: &Harness) -> Verdict {
    for (what, name) in bad_names() {
        refused(InboxKey::new(&name, "1"), ErrorKind::InvalidInput, what)?;
        refused(InboxKey::new("shop", &name), ErrorKind::InvalidInput, what)?;
    }
    nothing_was_written(h).await?;
    let longest = InboxKey::new("s".repeat(255), "i".repeat(255))?;
    assert!(!h.inbox.already_processed(&longest).await?);
    h.inbox.enqueue(Incoming::new(longest.clone(), "a", "{}")).await?;
    assert!(h.inbox.get(&longest).await?.is_some());
    Ok(())
}

async fn destinations_have_a_length_and_a_grammar(h: &Harness) -> Verdict {
    let others = [("one of 65 characters", "x".repeat(65)), ("one with a blank", "Bad Name".to_owned())];
    for (what, name) in bad_names().into_iter().chain(others) {
        refused(h.outbox.enqueue(NewMessage::new("a", "").to(name)).await, ErrorKind::InvalidInput, what)?;
    }
    nothing_was_written(h).await?;
    h.outbox.enqueue(NewMessage::new("a", "").to("x".repeat(64))).await?;
    Ok(())
}

async fn a_payload_is_text_and_never_missing(h: &Harness) -> Verdict {
    refused(h.outbox.enqueue(NewMessage::new("a", "x\0y")).await, ErrorKind::InvalidInput, "a NUL")?;
    let incoming = Draft::new("a").payload("\0").incoming()?;
    refused(h.inbox.enqueue(incoming.clone()).await, ErrorKind::InvalidInput, "a NUL")?;
    refused(h.inbox.accept(incoming).await, ErrorKind::InvalidInput, "a NUL")?;
    nothing_was_written(h).await
}

async fn a_row_without_a_payload_cannot_be_written(stage: &Stage<postroom::sqlite::Sqlite>) -> Verdict {
    let outbox = "INSERT INTO outbox_messages (id, topic, payload) VALUES (randomblob(16), 'a', NULL)";
    let inbox = "INSERT INTO inbox_messages (source, message_id, topic, payload) VALUES ('shop', '1', 'a', NULL)";
    for sql in [outbox, inbox] {
        let written = stage.store.write(move |tx| Ok(tx.execute(sql, [])?)).await;
        refused(written, ErrorKind::Constraint, "a row without a payload")?;
    }
    nothing_was_written(stage).await
}

async fn headers_are_bounded(h: &Harness) -> Verdict {
    let many = (0..65).fold(NewMessage::new("a", ""), |message, n| message.header(format!("h{n}"), "v"));
    refused(h.outbox.enqueue(many).await, ErrorKind::InvalidInput, "65 headers")?;
    let large = NewMessage::new("a", "").header("h", "x".repeat(17 * 1024));
    refused(h.outbox.enqueue(large).await, ErrorKind::InvalidInput, "17 KiB of headers")?;
    for (name, value) in [("", "v"), ("h", "a\0b"), ("h ", "v")] {
        let incoming = Draft::new("a").incoming()?.header(name, value);
        refused(h.inbox.enqueue(incoming).await, ErrorKind::InvalidInput, "a bad header")?;
    }
    // Between services this says where the answer goes: nobody else may.
    let forged = Draft::new("a").incoming()?.header("rf-answer-to", "orders");
    refused(h.inbox.accept(forged).await, ErrorKind::InvalidInput, "a header of the wire")?;
    nothing_was_written(h).await
}

async fn a_lease_is_longer_than_zero(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add("a").await?;
        for lease in [Duration::ZERO, LEASE_MAX + Duration::from_micros(1)] {
            let claim = side.verbs().claim(OwnerToken::new(), lease, 1).await;
            refused(claim, ErrorKind::InvalidInput, "that lease")?;
        }
        let lease = side.claim_one().await?;
        assert_eq!(lease.claim_no(), 1, "a refused claim took the row");
        refused(side.verbs().extend(&[lease], Duration::ZERO).await, ErrorKind::InvalidInput, "a lease of zero")?;
    }
    Ok(())
}

async fn a_batch_is_larger_than_zero(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add("a").await?;
        for batch in [0, BATCH_MAX + 1] {
            let claim = side.verbs().claim(OwnerToken::new(), LEASE, batch).await;
            refused(claim, ErrorKind::InvalidInput, "that batch")?;
        }
        refused(side.verbs().reap(0).await, ErrorKind::InvalidInput, "reaping nothing")?;
        refused(side.verbs().purge(LEASE, 0).await, ErrorKind::InvalidInput, "purging nothing")?;
        refused(side.verbs().expire(0).await, ErrorKind::InvalidInput, "expiring nothing")?;
        assert_eq!(side.claim_one().await?.claim_no(), 1);
    }
    Ok(())
}

async fn usual_leases_and_batches_are_taken(h: &Harness) -> Verdict {
    for side in h.sides() {
        for (seconds, batch) in [(10, 1), (30, 50), (300, 100)] {
            side.add_many("a", batch).await?;
            let lease = Duration::from_secs(seconds);
            let claimed = side.verbs().claim(OwnerToken::new(), lease, batch).await?.claimed;
            assert_eq!(claimed.len(), batch);
            assert!(claimed.iter().all(|claimed| claimed.lease.until() == h.now().plus(lease)));
        }
    }
    Ok(())
}

async fn the_nil_owner_is_nobody(h: &Harness) -> Verdict {
    refused(OwnerToken::from_uuid(Uuid::nil()), ErrorKind::InvalidInput, "the nil owner")?;
    refused(MessageId::from_uuid(Uuid::nil()), ErrorKind::InvalidInput, "the nil message")?;
    refused(WorkItemId::from_uuid(Uuid::nil()), ErrorKind::InvalidInput, "the nil work item")?;
    refused(Uuid::nil().to_string().parse::<OwnerToken>(), ErrorKind::InvalidInput, "the nil owner as text")?;
    // Every verb that takes an owner takes it by this type, so no store ever meets the nil one.
    let owner = OwnerToken::from_uuid(Uuid::max())?;
    for side in h.sides() {
        side.add("a").await?;
        assert_eq!(side.verbs().claim(owner, LEASE, 1).await?.claimed[0].lease.owner(), owner);
    }
    Ok(())
}

async fn a_delay_of_zero_is_refused(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        let abandon = side.verbs().abandon([lease.clone()], "x", Some(Duration::ZERO)).await;
        refused(abandon, ErrorKind::InvalidInput, "a delay of zero")?;
        refused(Settle::abandon(lease.clone(), Duration::ZERO, "x"), ErrorKind::InvalidInput, "a delay of zero")?;
        let record = side.record(lease.seq()).await?;
        assert_eq!((record.owner(), record.attempts()), (Some(lease.owner()), 0));
    }
    Ok(())
}

async fn a_life_of_zero_is_refused(h: &Harness) -> Verdict {
    let message = NewMessage::new("a", "").expires_after(Duration::ZERO);
    refused(h.outbox.enqueue(message).await, ErrorKind::InvalidInput, "a life of zero")?;
    refused(h.outbox.enqueue(NewMessage::new("a", "").max_attempts(0)).await, ErrorKind::InvalidInput, "no attempts")?;
    let incoming = Draft::new("a").max_attempts(0).incoming()?;
    refused(h.inbox.enqueue(incoming).await, ErrorKind::InvalidInput, "no attempts")?;
    let filter = postroom::operator::Filter::all();
    let revive = h.outbox.queue().revive(filter.clone(), Some(Duration::ZERO)).await;
    refused(revive, ErrorKind::InvalidInput, "a life of zero")?;
    refused(h.outbox.redrive(filter, Some(Duration::ZERO)).await, ErrorKind::InvalidInput, "a life of zero")?;
    nothing_was_written(h).await
}

async fn table_names_are_identifiers(_: &Harness) -> Verdict {
    for bad in ["out\"box", "out'box", "outbox;", "out box", "outbox--", "", "größe", "1outbox"] {
        refused(TableNames::new(bad, "inbox"), ErrorKind::InvalidInput, bad)?;
        refused(TableNames::new("outbox", bad), ErrorKind::InvalidInput, bad)?;
    }
    Ok(())
}

async fn a_worker_refuses_settings_that_cannot_work<B: Testable>(stage: &Stage<B>) -> Verdict {
    let policy = RetryPolicy::exponential(Duration::ZERO, LEASE, Duration::ZERO, 1);
    refused(policy, ErrorKind::InvalidInput, "a policy without a delay")?;
    let settings = [
        WorkerOptions::default().batch(0),
        WorkerOptions::default().lease(Duration::ZERO),
        WorkerOptions::default().concurrency(0),
        WorkerOptions::default().poll(Duration::ZERO),
        WorkerOptions::default().maintenance(Duration::ZERO),
    ];
    for options in settings {
        for side in stage.sides() {
            let worker = stage.worker(side.queue, Script::succeed().handlers()).options(options.clone());
            refused(worker.run(std::future::pending()).await, ErrorKind::InvalidInput, "such a worker")?;
        }
    }
    let twice = Script::succeed().handlers::<B>().on_topic("a", crate::script::play::<B>);
    let worker = stage.worker(postroom::queue::Queue::Inbox, twice.on_topic("a", crate::script::play::<B>));
    refused(worker.run(std::future::pending()).await, ErrorKind::InvalidInput, "two handlers for one topic")
}
