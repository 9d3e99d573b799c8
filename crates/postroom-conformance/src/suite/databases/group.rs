//! Many jobs in one commit: none of them can spoil it for the others.

use std::sync::mpsc;
use std::time::Duration;

use futures_util::FutureExt;
use postroom::queue::{Queue, State};
use postroom::sqlite::{Sqlite, SqliteStore};
use postroom::{Ctx, Error, ErrorKind, HandlerResult, Handlers, Message, NewMessage, Outbox, WorkerOptions};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::case::{Verdict, cases};
use crate::harness::{Stage, eventually, refused, soon};
use crate::script::Running;

cases! { group:
    sqlite a_write_is_committed_when_it_returns ["SQM-3.2.1", "SQM-9.3"];
    sqlite a_reader_cannot_write [];
    sqlite an_error_rolls_the_write_back ["SQM-3.2.1"];
    sqlite a_panic_rolls_the_write_back [];
    sqlite the_users_code_cannot_end_the_transaction [];
    sqlite the_users_code_may_use_savepoints [];
    sqlite one_rollback_spares_the_others ["SQM-13.1"];
    sqlite one_failed_commit_spares_the_others ["SQM-13.1"];
    sqlite enqueues_that_wait_together_answer_for_themselves ["SQM-13.1"];
    sqlite a_claim_that_was_rolled_back_with_its_group_keeps_the_order_of_lanes [];
    sqlite a_handler_that_swallows_a_rollback_leaves_nothing_behind [];
    sqlite a_write_that_calls_its_own_store_is_told [];
    sqlite an_async_handler_cannot_hold_the_writer_for_long [];
}

const TABLES: &str = "CREATE TABLE orders (id INTEGER PRIMARY KEY);
    CREATE TABLE lines (of INTEGER REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED);
    CREATE TRIGGER never BEFORE INSERT ON orders WHEN new.id = 13 BEGIN SELECT RAISE(ROLLBACK, 'unlucky'); END";

async fn tables(stage: &Stage<Sqlite>) -> Verdict {
    stage.store.write(|tx| Ok(tx.execute_batch(TABLES)?)).await?;
    Ok(())
}

async fn count(stage: &Stage<Sqlite>, table: &str) -> anyhow::Result<i64> {
    let sql = format!("SELECT count(*) FROM {table}");
    Ok(stage.store.read(move |conn| Ok(conn.query_row(&sql, [], |row| row.get(0))?)).await?)
}

async fn a_write_is_committed_when_it_returns(stage: &Stage<Sqlite>) -> Verdict {
    tables(stage).await?;
    stage.setup.logs.listen();
    let write = |tx: &postroom::sqlite::WriteTx<'_>| {
        tx.execute("INSERT INTO orders VALUES (7)", [])?;
        tx.accept(&postroom::Incoming::new(postroom::InboxKey::new("shop", "7")?, "a", ""))?;
        tx.enqueue(NewMessage::new("a", "seven"))
    };
    assert!(stage.store.write(write).await?.is_new());
    let other = rusqlite::Connection::open(stage.place.path("store.db"))?;
    for table in ["orders", "outbox_messages", "inbox_messages"] {
        let rows: i64 = other.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
        assert_eq!(rows, 1, "{table}");
    }
    for told in ["outbox: message enqueued", "inbox: message enqueued"] {
        assert_eq!(stage.setup.logs.saying(told).len(), 1, "{told}");
    }
    Ok(())
}

async fn a_reader_cannot_write(stage: &Stage<Sqlite>) -> Verdict {
    tables(stage).await?;
    let read = stage.store.read(|conn| Ok(conn.execute("INSERT INTO orders VALUES (7)", [])?));
    assert!(read.await.is_err(), "a reader wrote");
    assert_eq!(count(stage, "orders").await?, 0);
    Ok(())
}

async fn an_error_rolls_the_write_back(stage: &Stage<Sqlite>) -> Verdict {
    tables(stage).await?;
    let write = |tx: &postroom::sqlite::WriteTx<'_>| {
        tx.execute("INSERT INTO orders VALUES (7)", [])?;
        tx.enqueue(NewMessage::new("a", "seven"))?;
        Err::<(), _>(Error::callback("out of stock"))
    };
    refused(stage.store.write(write).await, ErrorKind::Callback, "the write")?;
    let bad = stage.store.write(|tx| tx.enqueue(NewMessage::new("", ""))).await;
    refused(bad, ErrorKind::InvalidInput, "no topic")?;
    assert_eq!((count(stage, "orders").await?, count(stage, "outbox_messages").await?), (0, 0));
    Ok(())
}

async fn a_panic_rolls_the_write_back(stage: &Stage<Sqlite>) -> Verdict {
    tables(stage).await?;
    let write = |tx: &postroom::sqlite::WriteTx<'_>| -> postroom::Result<()> {
        tx.execute("INSERT INTO orders VALUES (7)", [])?;
        std::panic::panic_any("out of cheese");
    };
    refused(stage.store.write(write).await, ErrorKind::Callback, "the write")?;
    assert_eq!(count(stage, "orders").await?, 0);
    stage.side(Queue::Outbox).add("the writer lives on").await?;
    Ok(())
}

async fn the_users_code_cannot_end_the_transaction(stage: &Stage<Sqlite>) -> Verdict {
    tables(stage).await?;
    let forbidden = ["COMMIT", "END", "ROLLBACK", "BEGIN", "ATTACH ':memory:' AS other", "PRAGMA synchronous = OFF"];
    for sql in forbidden {
        let write = stage.store.write(move |tx| {
            tx.execute("INSERT INTO orders VALUES (7)", [])?;
            Ok(tx.execute_batch(sql)?)
        });
        assert!(write.await.is_err(), "{sql} was allowed");
        assert_eq!(count(stage, "orders").await?, 0, "{sql}");
    }
    // Even a handler that does not care finds nothing changed.
    let write = stage.store.write(|tx| {
        tx.execute("INSERT INTO orders VALUES (8)", [])?;
        tx.execute_batch("COMMIT").ok();
        Err::<(), _>(Error::callback("no"))
    });
    refused(write.await, ErrorKind::Callback, "the write")?;
    assert_eq!(count(stage, "orders").await?, 0);
    Ok(())
}

async fn the_users_code_may_use_savepoints(stage: &Stage<Sqlite>) -> Verdict {
    tables(stage).await?;
    let sql = "INSERT INTO orders VALUES (1); SAVEPOINT mine; INSERT INTO orders VALUES (2);
               ROLLBACK TO mine; RELEASE mine; INSERT INTO orders VALUES (3)";
    stage.store.write(move |tx| Ok(tx.execute_batch(sql)?)).await?;
    assert_eq!(count(stage, "orders").await?, 2);
    Ok(())
}

/// Holds the writer until a group has formed behind it, and runs `culprit` in the middle of that group.
async fn beside(stage: &Stage<Sqlite>, culprit: &'static str) -> anyhow::Result<Error> {
    tables(stage).await?;
    let (release, released) = mpsc::channel::<()>();
    let mut jobs = JoinSet::new();
    let (store, first) = (stage.store.clone(), released);
    let wait = move |_: &postroom::sqlite::WriteTx<'_>| {
        first.recv().ok();
        Ok(())
    };
    jobs.spawn(async move { store.write(wait).await });
    let (began, beginning) = (stage.store.clone(), Duration::from_millis(20));
    for n in 100..120 {
        let store = began.clone();
        jobs.spawn(async move {
            store.write(move |tx| Ok(tx.execute("INSERT INTO orders VALUES (?1)", [n]).map(drop)?)).await
        });
        let outbox = Outbox::new(began.clone());
        jobs.spawn(async move { outbox.enqueue(NewMessage::new("a", "")).await.map(drop) });
    }
    let store = stage.store.clone();
    let mut bad = JoinSet::new();
    bad.spawn(async move { store.write(move |tx| Ok(tx.execute_batch(culprit)?)).await });
    // All are queued when nothing more happens for a while; that they are only makes the test harder to pass.
    let _ = tokio::time::timeout(beginning, jobs.join_next()).await;
    // For good: a job may run more than once.
    drop(release);
    while let Some(ended) = soon("the others end", jobs.join_next()).await? {
        ended??;
    }
    assert_eq!(count(stage, "outbox_messages").await?, 20);
    match soon("the culprit ends", bad.join_next()).await? {
        Some(ended) => ended?.err().ok_or_else(|| anyhow::anyhow!("the culprit succeeded")),
        None => anyhow::bail!("the culprit did not run"),
    }
}

/// They are stored with few statements. One of them is a duplicate, and one is refused.
async fn enqueues_that_wait_together_answer_for_themselves(stage: &Stage<Sqlite>) -> Verdict {
    let refuse = "CREATE TRIGGER never BEFORE INSERT ON outbox_messages WHEN new.topic = 'unlucky'
        BEGIN SELECT RAISE(ABORT, 'unlucky'); END";
    stage.store.write(move |tx| Ok(tx.execute_batch(refuse)?)).await?;
    let outbox = Outbox::new(stage.store.clone());
    let known = NewMessage::new("a", "known");
    outbox.enqueue(known.clone()).await?;
    let (release, released) = mpsc::channel::<()>();
    let store = stage.store.clone();
    let mut holding = JoinSet::new();
    holding.spawn(async move {
        let wait = move |_: &postroom::sqlite::WriteTx<'_>| {
            released.recv().ok();
            Ok(())
        };
        store.write(wait).await
    });
    let mut jobs = JoinSet::new();
    for n in 0..40 {
        let (outbox, known) = (outbox.clone(), known.clone());
        jobs.spawn(async move {
            let messages = match n {
                7 => vec![known],
                13 => vec![NewMessage::new("unlucky", "")],
                n => (0..=n % 3).map(|_| NewMessage::new("a", "")).collect(),
            };
            let ids: Vec<_> = messages.iter().map(NewMessage::work_item_id).collect();
            (n, ids, outbox.enqueue_many(messages).await)
        });
    }
    // All wait behind the writer when nothing more happens for a while. If one does not, the test is easier to pass.
    let _ = tokio::time::timeout(Duration::from_millis(20), std::future::pending::<()>()).await;
    drop(release);
    let mut stored_now = 1;
    while let Some(ended) = soon("all get an answer", jobs.join_next()).await? {
        let (n, ids, stored) = ended?;
        if n == 13 {
            assert!(stored.is_err(), "it was stored");
            continue;
        }
        let stored = stored?;
        assert_eq!(stored.iter().map(|stored| stored.id()).collect::<Vec<_>>(), ids, "the answer to another");
        assert!(stored.iter().all(|stored| stored.is_new() == (n != 7)), "{n}");
        stored_now += if n == 7 { 0 } else { i64::try_from(stored.len())? };
    }
    assert_eq!(count(stage, "outbox_messages").await?, stored_now);
    Ok(())
}

async fn one_rollback_spares_the_others(stage: &Stage<Sqlite>) -> Verdict {
    let error = beside(stage, "INSERT INTO orders VALUES (1); INSERT INTO orders VALUES (13)").await?;
    assert_eq!(error.kind(), ErrorKind::NotCommitted, "{error}");
    assert_eq!(count(stage, "orders").await?, 20);
    Ok(())
}

async fn one_failed_commit_spares_the_others(stage: &Stage<Sqlite>) -> Verdict {
    let error = beside(stage, "INSERT INTO orders VALUES (1); INSERT INTO lines VALUES (999)").await?;
    assert_eq!(error.kind(), ErrorKind::Constraint, "{error}");
    assert_eq!((count(stage, "orders").await?, count(stage, "lines").await?), (20, 0));
    Ok(())
}

async fn a_claim_that_was_rolled_back_with_its_group_keeps_the_order_of_lanes(stage: &Stage<Sqlite>) -> Verdict {
    tables(stage).await?;
    // What the claim skips stands before the lane, or behind.
    claim_and_roll_back(stage, ["other", "a", "a"]).await?;
    claim_and_roll_back(stage, ["b", "another", "another"]).await
}

/// Rolls back a claim of a topic after which a lane is called, and claims again.
async fn claim_and_roll_back(stage: &Stage<Sqlite>, topics: [&str; 3]) -> Verdict {
    let side = stage.side(Queue::Outbox);
    let topic = if topics[0] == "other" { "a" } else { "b" };
    let draft = || crate::harness::Draft::new(topic).lane(topic);
    let mut seqs = Vec::new();
    for one in topics {
        let seq = if one == topic { side.put(&draft()).await? } else { side.add(one).await? };
        seqs.extend((one == topic).then_some(seq));
    }
    // The writer is kept busy until the claim and a write whose commit fails wait for it together.
    let (free, is_free) = mpsc::channel::<()>();
    let (store, mut busy) = (stage.store.clone(), JoinSet::new());
    let (began, has_begun) = tokio::sync::oneshot::channel();
    let mut began = Some(began);
    busy.spawn(async move {
        let hold = move |_: &postroom::sqlite::WriteTx<'_>| {
            if let Some(began) = began.take() {
                let _ = began.send(());
            }
            let _ = is_free.recv();
            Ok(())
        };
        store.write(hold).await
    });
    has_begun.await?;
    let (topics, owner) = (postroom::queue::Topics::only([topic])?, postroom::message::OwnerToken::new());
    let claim = side.verbs().claim_topics(owner, Duration::from_secs(30), 10, &topics);
    let bad = stage.store.write(|tx| Ok(tx.execute_batch("INSERT INTO lines VALUES (999)")?));
    // For good: a job may run more than once.
    let release = async move {
        tokio::task::yield_now().await;
        drop(free);
    };
    let (claimed, failed, ()) = tokio::join!(claim, bad, release);
    refused(failed, ErrorKind::Constraint, "the commit")?;
    assert!(claimed?.claimed.iter().all(|claimed| claimed.lease.seq() == seqs[0]));
    seqs.push(side.put(&draft()).await?);
    let again = side.verbs().claim_topics(owner, Duration::from_secs(30), 10, &topics).await?.claimed;
    let again: Vec<_> = again.iter().map(|claimed| claimed.lease.seq()).collect();
    assert!(again.is_empty() || again == [seqs[0]], "{again:?} overtook {seqs:?}");
    Ok(())
}

async fn a_handler_that_swallows_a_rollback_leaves_nothing_behind(stage: &Stage<Sqlite>) -> Verdict {
    tables(stage).await?;
    for (side, from) in stage.sides().into_iter().zip([1000, 2000]) {
        let handlers = Handlers::<Sqlite>::new().on_topic_blocking("good", move |ctx| {
            let id = ctx.message().payload.parse::<i64>()?;
            ctx.tx().execute("INSERT INTO orders VALUES (?1)", [id])?;
            Ok(None)
        });
        let handlers = handlers.on_topic_blocking("bad", |ctx| {
            ctx.tx().execute("INSERT INTO orders VALUES (13)", []).ok();
            ctx.tx().execute("INSERT INTO orders VALUES (14)", []).ok();
            Ok(None)
        });
        for n in 0..10 {
            side.put(&crate::harness::Draft::new("good").payload((from + n).to_string())).await?;
        }
        let bad = side.add("bad").await?;
        for n in 10..20 {
            side.put(&crate::harness::Draft::new("good").payload((from + n).to_string())).await?;
        }
        let worker = Running::start(stage.worker(side.queue, handlers));
        eventually("the good ones are done", || async move { Ok(side.verbs().stats().await?.done == 20) }).await?;
        eventually("the bad one is counted", || async move { Ok(side.record(bad).await?.attempts() == 1) }).await?;
        worker.stop().await?;
        assert_eq!(side.state(bad).await?, State::Ready);
    }
    assert_eq!(count(stage, "orders").await?, 40);
    Ok(())
}

async fn a_write_that_calls_its_own_store_is_told(stage: &Stage<Sqlite>) -> Verdict {
    let outbox = stage.outbox.clone();
    let write = stage.store.write(move |_| {
        let called = outbox.enqueue(NewMessage::new("a", "")).now_or_never();
        called.unwrap_or_else(|| Err(Error::callback("it waits for itself")))
    });
    refused(soon("the write ends", write).await?, ErrorKind::InsideHandler, "a call of its own store")
}

async fn holds_on(ctx: &mut Ctx<Sqlite>, message: std::sync::Arc<Message>) -> HandlerResult<Option<String>> {
    let gate = ctx.state::<std::sync::Arc<Notify>>()?;
    let id: i64 = message.payload.parse()?;
    ctx.tx().await?.run(move |conn| conn.execute("INSERT INTO orders VALUES (?1)", [id])).await?;
    gate.notified().await;
    ctx.tx().await?.run(|conn| conn.execute("INSERT INTO orders VALUES (99)", [])).await?;
    Ok(None)
}

async fn an_async_handler_cannot_hold_the_writer_for_long(stage: &Stage<Sqlite>) -> Verdict {
    tables(stage).await?;
    let gate = std::sync::Arc::new(Notify::new());
    let side = stage.side(Queue::Inbox);
    let seq = side.put(&crate::harness::Draft::new("a").payload("1")).await?;
    let handlers = Handlers::new().state(gate.clone()).on_topic("a", holds_on);
    let options = WorkerOptions::default().lease(Duration::from_secs(3));
    let worker = Running::start(stage.worker(side.queue, handlers).options(options));
    eventually("the handler is called", || async move { Ok(side.state(seq).await? == State::Leased) }).await?;
    let store: &SqliteStore = &stage.store;
    soon("others write meanwhile", store.write(|tx| Ok(tx.execute("INSERT INTO orders VALUES (50)", [])?))).await??;
    gate.notify_one();
    let ended = || async move { Ok(side.state(seq).await? != State::Leased) };
    eventually("the handler ends", ended).await?;
    worker.stop().await?;
    let record = side.record(seq).await?;
    let ids = "SELECT group_concat(id) FROM orders";
    let ids: String = stage.store.read(move |conn| Ok(conn.query_row(ids, [], |row| row.get(0))?)).await?;
    let kept = if record.state() == State::Done { "1,50,99" } else { "50" };
    assert_eq!(ids, kept, "{record:?}");
    Ok(())
}
