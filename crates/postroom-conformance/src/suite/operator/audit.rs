//! The audit trail of what operators do.

use std::time::Duration;

use anyhow::Context;
use postroom::NewMessage;
use postroom::operator::{Act, Audited, Filter, Operator};
use postroom::queue::Queue;
use postroom::sqlite::Sqlite;

use crate::case::{Verdict, cases};
use crate::harness::{Harness, LEASE, Stage};
use crate::on_server::OnServer;
use crate::side::Side;

cases! { audit:
    both what_an_operator_does_is_written_down_with_who_how_many_and_why [];
    both the_steps_of_one_act_are_one_entry [];
    both what_changes_nothing_leaves_no_entry [];
    both nobody_changes_messages_by_hand_without_an_entry [];
    both what_workers_do_by_themselves_is_no_act [];
    server without_its_entry_nothing_is_changed [];
    sqlite without_its_entry_nothing_is_changed_in_a_file [];
}

async fn dead(side: &Side<'_>, topics: &[&str]) -> anyhow::Result<()> {
    for topic in topics {
        let lease = side.leased(topic).await?;
        side.fail(lease, "no such order").await?;
    }
    Ok(())
}

fn ada() -> anyhow::Result<Operator> {
    Ok(Operator::new("ada")?.because("billing is back")?.chose("topic a")?)
}

fn told(entry: &Audited) -> (&str, Act, u64) {
    (entry.who(), entry.act(), entry.messages())
}

async fn what_an_operator_does_is_written_down_with_who_how_many_and_why(h: &Harness) -> Verdict {
    for side in h.sides() {
        dead(&side, &["a", "a", "b"]).await?;
        h.clock.advance(LEASE);
        assert_eq!(side.verbs().by(ada()?).revive(Filter::all().topic("a"), None).await?, 2);
        let entries = side.verbs().audit(10).await?;
        assert_eq!(entries.iter().map(told).collect::<Vec<_>>(), [("ada", Act::Revive, 2)]);
        let entry = &entries[0];
        assert_eq!((entry.at(), entry.why(), entry.chosen()), (h.now(), Some("billing is back"), Some("topic a")));
        h.clock.advance(LEASE);
        let bob = Operator::new("bob ✓ 'x'")?.because("obsolete")?;
        let dismissal = Operator::new("ada")?.because("a test order")?;
        assert_eq!(side.verbs().by(bob).dismiss(Filter::all().topic("b"), dismissal).await?, 1);
        let entries = side.verbs().audit(1).await?;
        assert_eq!(entries.iter().map(told).collect::<Vec<_>>(), [("bob ✓ 'x'", Act::Dismiss, 1)], "the newest first");
    }
    Ok(())
}

async fn the_steps_of_one_act_are_one_entry(h: &Harness) -> Verdict {
    for side in h.sides() {
        dead(&side, &["a", "b", "c"]).await?;
        let queue = side.verbs().by(ada()?);
        for topic in ["a", "b"] {
            assert_eq!(queue.revive(Filter::all().topic(topic), None).await?, 1);
        }
        // Another act, by the same hand.
        assert_eq!(queue.dismiss(Filter::all(), Operator::new("ada")?.because("obsolete")?).await?, 1);
        let mut entries: Vec<_> =
            side.verbs().audit(10).await?.iter().map(|entry| (entry.act(), entry.messages())).collect();
        entries.sort_by_key(|(_, messages)| *messages);
        assert_eq!(entries, [(Act::Dismiss, 1), (Act::Revive, 2)]);
    }
    Ok(())
}

async fn what_changes_nothing_leaves_no_entry(h: &Harness) -> Verdict {
    for side in h.sides() {
        dead(&side, &["a"]).await?;
        assert_eq!(side.verbs().by(ada()?).revive(Filter::all().topic("b"), None).await?, 0);
        assert_eq!(side.verbs().by(ada()?).purge(Duration::from_secs(1), 10).await?, 0);
        assert!(side.verbs().audit(10).await?.is_empty());
    }
    Ok(())
}

async fn nobody_changes_messages_by_hand_without_an_entry(h: &Harness) -> Verdict {
    for side in h.sides() {
        dead(&side, &["a", "b"]).await?;
        assert_eq!(side.verbs().revive(Filter::all().topic("a"), None).await?, 1);
        h.clock.advance(LEASE / 2);
        assert_eq!(side.verbs().dismiss(Filter::all(), Operator::new("ada")?.because("obsolete")?).await?, 1);
        let entries = side.verbs().audit(10).await?;
        assert_eq!(
            entries.iter().map(told).collect::<Vec<_>>(),
            [("ada", Act::Dismiss, 1), ("unnamed", Act::Revive, 1)]
        );
        assert_eq!(entries[0].why(), Some("obsolete"));
    }
    Ok(())
}

async fn what_workers_do_by_themselves_is_no_act(h: &Harness) -> Verdict {
    let queue = h.outbox.queue();
    for _ in 0..2 {
        h.outbox.enqueue(NewMessage::new("a", "").expires_after(LEASE)).await?;
    }
    h.clock.advance(LEASE);
    assert_eq!(queue.expire(1).await?, 1);
    assert!(queue.audit(10).await?.is_empty());
    assert_eq!(queue.by(ada()?).expire(10).await?, 1);
    let lease = h.side(Queue::Outbox).leased("b").await?;
    let _ = queue.ack([lease]).await?;
    h.clock.advance(LEASE);
    assert_eq!(queue.by(ada()?).purge(LEASE / 2, 10).await?, 1);
    assert_eq!(queue.by(ada()?).redrive(Filter::all(), None).await?, 0);
    let acts: Vec<_> = queue.audit(10).await?.iter().map(Audited::act).collect();
    assert_eq!(acts, [Act::Purge, Act::Expire]);
    Ok(())
}

async fn without_its_entry_nothing_is_changed<B: OnServer>(stage: &Stage<B>) -> Verdict {
    let side = stage.side(Queue::Outbox);
    dead(&side, &["a"]).await?;
    let tables = B::ask(&stage.place, B::TABLES).await?;
    let audit = tables.iter().find(|table| table.ends_with("outbox_audit")).context("there is no such table")?;
    B::tell(&stage.place, &format!("DROP TABLE {audit}")).await?;
    stays_dead(&side).await
}

async fn without_its_entry_nothing_is_changed_in_a_file(stage: &Stage<Sqlite>) -> Verdict {
    let side = stage.side(Queue::Outbox);
    dead(&side, &["a"]).await?;
    rusqlite::Connection::open(stage.place.path("store.db"))?.execute_batch("DROP TABLE outbox_messages_audit")?;
    stays_dead(&side).await
}

async fn stays_dead(side: &Side<'_>) -> Verdict {
    assert!(side.verbs().by(ada()?).revive(Filter::all(), None).await.is_err());
    assert!(side.verbs().dismiss(Filter::all(), Operator::new("ada")?.because("obsolete")?).await.is_err());
    let stats = side.verbs().stats().await?;
    assert_eq!((stats.dead, stats.ready, stats.dismissed), (1, 0, 0));
    Ok(())
}
