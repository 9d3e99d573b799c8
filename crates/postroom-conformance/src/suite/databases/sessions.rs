//! What a handler or a caller does to its connection to SQL Server, and what it costs nobody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postroom::mssql::Mssql;
use postroom::queue::{Queue, State};
use postroom::{Ctx, HandlerError, HandlerResult, Handlers, Message, NewMessage};

use crate::case::{Verdict, cases};
use crate::harness::{Stage, eventually};
use crate::script::Running;
use crate::servers::Client;

cases! { sessions:
    mssql a_transaction_that_a_handler_leaves_open_inside_its_own_is_not_taken_for_a_commit [];
    mssql what_a_handler_sets_is_not_there_for_the_next [];
    mssql a_connection_in_another_database_is_not_used_again [];
    mssql a_twin_that_commits_first_does_not_cost_the_callers_transaction [];
}

/// What the first call says, and what every call writes.
struct Script {
    first: &'static str,
    fails_first: bool,
    note: String,
    calls: AtomicUsize,
}

/// Its answer is whether the server is as a handler may expect it.
async fn run(ctx: &mut Ctx<Mssql>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    let script = ctx.state::<Arc<Script>>()?;
    let is_first = script.calls.fetch_add(1, Ordering::SeqCst) == 0;
    let tx = ctx.tx().await?;
    let asked = "SELECT DB_NAME(), @@LOCK_TIMEOUT, CASE WHEN NULL = NULL THEN 1 ELSE 0 END";
    let found = Client::ask(tx, asked).await?.concat().join(" ");
    Client::say(tx, &script.note).await?;
    if is_first {
        Client::say(tx, script.first).await?;
    }
    if is_first && script.fails_first { Err(HandlerError::retry("the first time")) } else { Ok(Some(found)) }
}

/// Runs one message to its end; what its last call found, and how many rows were written.
async fn outcome(stage: &Stage<Mssql>, first: &'static str, fails_first: bool) -> anyhow::Result<(String, usize)> {
    let (side, table) = (stage.side(Queue::Inbox), format!("{}.noted", stage.place.own_name()));
    let mut client = stage.client().await?;
    client.say(&format!("CREATE TABLE {table} (id INT)")).await?;
    let note = format!("INSERT INTO {table} VALUES (7)");
    let script = Arc::new(Script { first, fails_first, note, calls: AtomicUsize::new(0) });
    let handlers = Handlers::new().state(script.clone()).on_topic("a", run);
    let worker = Running::start(stage.worker(side.queue, handlers));
    let seq = side.add("a").await?;
    eventually("it is done", || async move {
        stage.skip_pause(side.queue).await?;
        Ok(side.state(seq).await? == State::Done)
    })
    .await?;
    worker.stop().await?;
    assert_eq!(script.calls.load(Ordering::SeqCst), 2, "the first call ends without a commit");
    let found = side.record(seq).await?.response().unwrap_or_default().to_owned();
    Ok((found, client.ask(&format!("SELECT id FROM {table}")).await?.len()))
}

async fn a_transaction_that_a_handler_leaves_open_inside_its_own_is_not_taken_for_a_commit(
    stage: &Stage<Mssql>,
) -> Verdict {
    let (_, noted) = outcome(stage, "BEGIN TRANSACTION", false).await?;
    assert_eq!(noted, 1, "what the second call wrote, and nothing of the first");
    Ok(())
}

async fn what_a_handler_sets_is_not_there_for_the_next(stage: &Stage<Mssql>) -> Verdict {
    let (found, noted) = outcome(stage, "SET LOCK_TIMEOUT 1; SET ANSI_NULLS OFF; SET ROWCOUNT 1", true).await?;
    assert!(found.ends_with(" -1 0"), "{found}");
    assert_eq!(noted, 1);
    Ok(())
}

async fn a_connection_in_another_database_is_not_used_again(stage: &Stage<Mssql>) -> Verdict {
    let home = stage.client().await?.ask("SELECT DB_NAME()").await?.concat().concat();
    let (found, noted) = outcome(stage, "USE tempdb", true).await?;
    assert_eq!(found.split(' ').next(), Some(home.as_str()));
    assert_eq!(noted, 1);
    Ok(())
}

/// Also not of one whose connection rolls back at every error.
async fn a_twin_that_commits_first_does_not_cost_the_callers_transaction(stage: &Stage<Mssql>) -> Verdict {
    let (mut first, mut second) = (stage.client().await?, stage.client().await?);
    second.say("SET XACT_ABORT ON").await?;
    let message = NewMessage::new("a", "{}");
    for client in [&mut first, &mut second] {
        client.begin_transaction().await?;
    }
    let stored = stage.outbox.enqueue_in(&mut first, &message).await?;
    assert!(!stored.is_duplicate());
    // The second waits for the first, or comes after it.
    let (twin, committed) = tokio::join!(stage.outbox.enqueue_in(&mut second, &message), first.commit_transaction());
    committed?;
    assert!(twin?.is_duplicate());
    drop(stage.outbox.enqueue_in(&mut second, NewMessage::new("b", "{}")).await?);
    second.commit_transaction().await?;
    assert_eq!(stage.side(Queue::Outbox).rows().await?, 2);
    Ok(())
}
