//! Messages that are moved by two transactions at the same moment, on PostgreSQL: what one of them read before it had
//! to wait is old when it goes on.

use std::time::Duration;

use postroom::NewMessage;
use postroom::postgres::Postgres;
use postroom::queue::{Queue, Settle, State};
use sqlx::PgConnection;

use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Stage, eventually};
use crate::on_server::OnServer;
use crate::servers::Client;
use crate::side::Draft;

cases! { moves:
    postgres what_is_accepted_while_it_is_seen_is_not_lost [];
    postgres what_is_accepted_is_not_purged_as_seen [];
    postgres a_settle_keeps_an_answer_that_arrives_meanwhile [];
    postgres two_attempts_that_begin_at_once_are_counted_twice [];
    postgres what_is_redriven_is_not_purged_as_done [];
    postgres lanes_that_somebody_holds_up_hold_up_no_others [];
}

/// How long messages are kept.
const KEPT: Duration = Duration::from_secs(40 * 24 * 3600);

/// Waits until a statement of the case waits for a lock, then commits what holds it.
async fn commit_when_somebody_waits(stage: &Stage<Postgres>, holder: &mut PgConnection) -> Verdict {
    let waiting = format!(
        "SELECT count(*)::text FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}.%'",
        stage.place.own_name()
    );
    eventually("it waits", || async { Ok(Postgres::ask(&stage.place, &waiting).await?.concat() != "0") }).await?;
    Ok(holder.say("COMMIT").await?)
}

async fn what_is_accepted_while_it_is_seen_is_not_lost(stage: &Stage<Postgres>) -> Verdict {
    let (draft, table) = (Draft::new("a"), stage.table("inbox"));
    let (incoming, key) = (draft.incoming()?, draft.key()?);
    let (mut seeing, mut accepting) = (stage.client().await?, stage.client().await?);
    let (source, id) = (key.source(), key.message_id());
    seeing.say(&format!("BEGIN; INSERT INTO {table} (source, message_id) VALUES ('{source}', '{id}')")).await?;
    let (accepted, committed) =
        tokio::join!(stage.inbox.accept_in(&mut accepting, &incoming), commit_when_somebody_waits(stage, &mut seeing));
    committed?;
    assert!(accepted?.is_new(), "its content was thrown away");
    assert_eq!(stage.side(Queue::Inbox).verbs().stats().await?.ready, 1);
    Ok(())
}

async fn what_is_accepted_is_not_purged_as_seen(stage: &Stage<Postgres>) -> Verdict {
    let draft = Draft::new("a");
    let side = stage.side(Queue::Inbox);
    stage.inbox.already_processed(&draft.key()?).await?;
    stage.clock.advance(10 * KEPT);
    let mut accepting = stage.client().await?;
    accepting.say("BEGIN").await?;
    assert!(stage.inbox.accept_in(&mut accepting, &draft.incoming()?).await?.is_new());
    assert_eq!(side.verbs().purge_state(State::Seen, KEPT, 10).await?, 0);
    accepting.say("COMMIT").await?;
    assert_eq!(side.verbs().purge_state(State::Seen, KEPT, 10).await?, 0);
    assert_eq!(side.verbs().stats().await?.ready, 1);
    Ok(())
}

async fn a_settle_keeps_an_answer_that_arrives_meanwhile(stage: &Stage<Postgres>) -> Verdict {
    for side in stage.sides() {
        let (lease, table) = (side.leased("a").await?, stage.table(side.queue.as_str()));
        let mut answering = stage.client().await?;
        let answer = format!("BEGIN; UPDATE {table}_state SET response = 'shelf 7' WHERE seq = {}", lease.seq());
        answering.say(&answer).await?;
        let settle = Settle::abandon(lease.clone(), LEASE, "later")?;
        let (settled, committed) =
            tokio::join!(side.verbs().settle(vec![settle]), commit_when_somebody_waits(stage, &mut answering));
        committed?;
        assert_eq!(settled?.applied, 1);
        assert_eq!(side.record(lease.seq()).await?.response(), Some("shelf 7"));
    }
    Ok(())
}

async fn two_attempts_that_begin_at_once_are_counted_twice(stage: &Stage<Postgres>) -> Verdict {
    let (key, table) = (Draft::new("a").key()?, stage.table("inbox"));
    stage.inbox.already_processed(&key).await?;
    let mut other = stage.client().await?;
    other.say(&format!("BEGIN; UPDATE {table}_state SET state = 6, attempts = attempts + 1")).await?;
    let (began, committed) =
        tokio::join!(stage.inbox.mark_processing(&key), commit_when_somebody_waits(stage, &mut other));
    committed?;
    assert!(began?, "the second was not counted");
    assert_eq!(stage.side(Queue::Inbox).record(1).await?.attempts(), 2);
    Ok(())
}

async fn what_is_redriven_is_not_purged_as_done(stage: &Stage<Postgres>) -> Verdict {
    for side in stage.sides() {
        let table = stage.table(side.queue.as_str());
        side.add_many("a", 3).await?;
        let leases: Vec<_> = side.claim(3).await?.into_iter().map(|claimed| claimed.lease).collect();
        let middle = leases[1].seq();
        assert_eq!(side.verbs().ack(leases).await?.applied, 3);
        stage.clock.advance(10 * KEPT);
        let mut redriving = stage.client().await?;
        let redrive = format!(
            "BEGIN; UPDATE {table}_state SET state = 0, visible_at = 1, processed_at = NULL, processed_by = NULL
             WHERE seq = {middle}"
        );
        redriving.say(&redrive).await?;
        side.verbs().purge(KEPT, 10).await?;
        redriving.say("COMMIT").await?;
        side.verbs().purge(KEPT, 10).await?;
        let stats = side.verbs().stats().await?;
        assert_eq!((stats.ready, stats.done), (1, 0), "only what was done is deleted");
        assert_eq!(side.state(middle).await?, State::Ready);
    }
    Ok(())
}

/// More lanes than one look takes notes.
const LANES: usize = 600;

async fn lanes_that_somebody_holds_up_hold_up_no_others(stage: &Stage<Postgres>) -> Verdict {
    let (side, table) = (stage.side(Queue::Outbox), stage.table("outbox"));
    let draft = |at: usize| NewMessage::new("a", "{}").lane(format!("lane-{at}"));
    stage.outbox.enqueue_many((0..LANES).map(draft)).await?;
    stage.outbox.enqueue_many((0..LANES).map(draft)).await?;
    let mut firsts = Vec::new();
    while firsts.len() < LANES {
        firsts.extend(side.claim(LANES).await?.into_iter().map(|claimed| claimed.lease));
    }
    let mut other = stage.client().await?;
    other.say(&format!("BEGIN; UPDATE {table}_lane SET place = place WHERE place = 0")).await?;
    assert_eq!(side.verbs().ack(firsts).await?.applied, LANES as u64);
    assert_eq!(side.claim(LANES).await?.len(), 0, "all of them are held up");
    stage.outbox.enqueue(draft(LANES)).await?;
    let mut claimed = Vec::new();
    eventually("another lane is not", || async { Ok(side.claim(10).await?.len() == 1) }).await?;
    other.say("ROLLBACK").await?;
    while claimed.len() < LANES {
        claimed.extend(side.claim(LANES).await?);
    }
    Ok(())
}
