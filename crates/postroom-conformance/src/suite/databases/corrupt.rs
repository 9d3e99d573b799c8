//! Rows that cannot be read: each is counted and marked dead, and never delays others.

use std::time::Duration;

use postroom::WorkerOptions;
use postroom::operator::Filter;
use postroom::queue::{Queue, State};
use postroom::sqlite::Sqlite;

use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Side, Stage, eventually};
use crate::script::Script;

cases! { corrupt:
    sqlite headers_that_are_not_json [];
    sqlite an_id_of_three_bytes [];
    sqlite a_kind_nobody_knows [];
    sqlite a_topic_that_is_not_text [];
    sqlite a_source_that_is_empty [];
    sqlite an_error_that_is_not_text [];
    sqlite a_limit_below_zero [];
    sqlite attempts_below_zero [];
    sqlite an_owner_of_three_bytes [];
    sqlite a_state_nobody_knows [];
}

const BOTH: [Queue; 2] = [Queue::Outbox, Queue::Inbox];

async fn spoil(stage: &Stage<Sqlite>, side: Side<'_>, change: &str) -> anyhow::Result<i64> {
    side.add("good").await?;
    let bad = side.add("bad").await?;
    side.add("good").await?;
    let of_the_message = ["headers", "id", "kind", "topic", "source", "max_attempts"];
    let column = change.split(' ').next().unwrap_or_default();
    let view = if of_the_message.contains(&column) { "" } else { "_state" };
    let sql = format!("UPDATE {}_messages{view} SET {change} WHERE seq = {bad}", side.queue);
    stage.store.write(move |tx| Ok(tx.execute(&sql, [])?)).await?;
    Ok(bad)
}

/// How many rows of a topic are done, asked of the file itself: it can be read when a row cannot.
async fn done(stage: &Stage<Sqlite>, queue: Queue, topic: &'static str) -> anyhow::Result<i64> {
    let sql = format!("SELECT count(*) FROM {queue}_messages_state WHERE topic = ?1 AND state = 2");
    Ok(stage.store.read(move |conn| Ok(conn.query_row(&sql, [topic], |row| row.get(0))?)).await?)
}

/// The neighbours are handled whatever the row looks like, and whatever becomes of its lease.
async fn neighbours_are_handled(stage: &Stage<Sqlite>, queues: &[Queue], change: &str) -> Verdict {
    for side in queues.iter().map(|queue| stage.side(*queue)) {
        spoil(stage, side, change).await?;
        let script = Script::succeed();
        let worker = stage.work(side.queue, &script, WorkerOptions::default());
        let handled = || async move { Ok(done(stage, side.queue, "good").await? == 2) };
        eventually("the neighbours are handled", handled).await?;
        // A row that cannot be settled is met again when its lease is over.
        stage.advance(LEASE + Duration::from_secs(60));
        side.add("late").await?;
        let handled = || async move { Ok(done(stage, side.queue, "late").await? == 1) };
        eventually("so is what comes later", handled).await?;
        worker.stop().await?;
        assert_eq!(script.calls().iter().filter(|message| message.topic == "good").count(), 2, "one call each");
    }
    Ok(())
}

/// The row is tried as often as any other, and is dead then.
async fn it_dies_at_the_limit(stage: &Stage<Sqlite>, queues: &[Queue], change: &str) -> Verdict {
    for side in queues.iter().map(|queue| stage.side(*queue)) {
        let bad = spoil(stage, side, change).await?;
        let script = Script::succeed();
        let worker = stage.work(side.queue, &script, WorkerOptions::default());
        let dead = || async move {
            stage.skip_pause(side.queue).await?;
            Ok(side.state(bad).await? == State::Dead)
        };
        eventually("the row is given up", dead).await?;
        worker.stop().await?;
        let record = side.record(bad).await?;
        assert_eq!((record.attempts(), record.crashes()), (10, 0));
        assert!(record.last_error().is_some());
        assert!(record.message().is_err());
        assert_eq!(side.verbs().failures(bad).await?.len(), 10);
        assert_eq!((done(stage, side.queue, "good").await?, script.count()), (2, 2), "the neighbours are handled");
        is_found_among_the_failed(stage, side, bad).await?;
    }
    Ok(())
}

/// An operator sees it beside the others, and can requeue it.
async fn is_found_among_the_failed(stage: &Stage<Sqlite>, side: Side<'_>, bad: i64) -> Verdict {
    let lease = side.leased("good").await?;
    side.fail(lease.clone(), "no stock").await?;
    let sql = format!("UPDATE {}_messages_state SET last_error = CAST(x'ff' AS TEXT) WHERE seq = {bad}", side.queue);
    stage.store.write(move |tx| Ok(tx.execute(&sql, [])?)).await?;
    let failed: Vec<_> = side.verbs().failed(Filter::all()).await?.iter().map(|failed| failed.seq).collect();
    assert_eq!(failed, [bad, lease.seq()]);
    assert_eq!(side.verbs().failed_groups(10).await?.iter().map(|group| group.messages).sum::<u64>(), 2);
    assert_eq!(side.verbs().revive(Filter::all(), None).await?, 2);
    assert_eq!(side.state(bad).await?, State::Ready);
    Ok(())
}

async fn headers_that_are_not_json(stage: &Stage<Sqlite>) -> Verdict {
    it_dies_at_the_limit(stage, &BOTH, "headers = 'not json'").await
}

async fn an_id_of_three_bytes(stage: &Stage<Sqlite>) -> Verdict {
    it_dies_at_the_limit(stage, &[Queue::Outbox], "id = x'010203'").await
}

async fn a_kind_nobody_knows(stage: &Stage<Sqlite>) -> Verdict {
    it_dies_at_the_limit(stage, &BOTH, "kind = 'Rumour'").await
}

async fn a_topic_that_is_not_text(stage: &Stage<Sqlite>) -> Verdict {
    it_dies_at_the_limit(stage, &BOTH, "topic = CAST(x'ff' AS TEXT)").await
}

async fn a_source_that_is_empty(stage: &Stage<Sqlite>) -> Verdict {
    it_dies_at_the_limit(stage, &[Queue::Inbox], "source = ''").await
}

async fn an_error_that_is_not_text(stage: &Stage<Sqlite>) -> Verdict {
    neighbours_are_handled(stage, &BOTH, "last_error = CAST(x'ff' AS TEXT)").await
}

/// A service that enqueues by plain SQL may well write this.
async fn a_limit_below_zero(stage: &Stage<Sqlite>) -> Verdict {
    neighbours_are_handled(stage, &BOTH, "max_attempts = -1").await
}

async fn attempts_below_zero(stage: &Stage<Sqlite>) -> Verdict {
    neighbours_are_handled(stage, &BOTH, "attempts = -1").await
}

async fn an_owner_of_three_bytes(stage: &Stage<Sqlite>) -> Verdict {
    let leased =
        "state = 1, owner = x'010203', claim_no = 1, visible_at = visible_at - 5, locked_until = visible_at - 5";
    neighbours_are_handled(stage, &BOTH, leased).await
}

async fn a_state_nobody_knows(stage: &Stage<Sqlite>) -> Verdict {
    neighbours_are_handled(stage, &BOTH, "state = 99").await?;
    for side in stage.sides() {
        // What is wrong with one row must not hide the others from an operator.
        assert!(side.verbs().list(Filter::all()).await.is_ok_and(|listed| listed.len() >= 3));
    }
    Ok(())
}
