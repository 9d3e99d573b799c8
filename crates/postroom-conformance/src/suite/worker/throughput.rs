//! Thousands of messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use postroom::sqlite::Sqlite;
use postroom::{Handlers, WorkerOptions};

use crate::case::{Verdict, cases};
use crate::harness::{Stage, Testable, eventually};
use crate::script::{Running, Script};

cases! { throughput:
    worker thousands_of_messages_are_drained_once_each ["OBX-099", "IBX-121"];
    sqlite thousands_of_blocking_handlers_run_once_each ["OBX-099", "IBX-121"];
}

const MESSAGES: usize = 3000;

async fn thousands_of_messages_are_drained_once_each<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let script = Script::succeed();
        side.add_many("a", MESSAGES).await?;
        let worker = stage.work(side.queue, &script, WorkerOptions::default());
        let done = || async move { Ok(side.verbs().stats().await?.done == MESSAGES as u64) };
        eventually("all are done", done).await?;
        worker.stop().await?;
        assert_eq!(script.count(), MESSAGES);
    }
    Ok(())
}

async fn thousands_of_blocking_handlers_run_once_each(stage: &Stage<Sqlite>) -> Verdict {
    stage.store.write(|tx| Ok(tx.execute_batch("CREATE TABLE effects (id TEXT PRIMARY KEY)")?)).await?;
    for (side, expected) in stage.sides().into_iter().zip([MESSAGES, MESSAGES * 2]) {
        let calls = Arc::new(AtomicU64::new(0));
        let counted = calls.clone();
        let handlers = Handlers::<Sqlite>::new().on_topic_blocking("a", move |ctx| {
            counted.fetch_add(1, Ordering::SeqCst);
            ctx.tx().execute("INSERT INTO effects VALUES (?1)", [ctx.message().id()])?;
            Ok(None)
        });
        side.add_many("a", MESSAGES).await?;
        let worker = Running::start(stage.worker(side.queue, handlers));
        let done = || async move { Ok(side.verbs().stats().await?.done == MESSAGES as u64) };
        eventually("all are done", done).await?;
        worker.stop().await?;
        let effects = "SELECT count(*) FROM effects";
        let effects: i64 = stage.store.read(move |conn| Ok(conn.query_row(effects, [], |row| row.get(0))?)).await?;
        assert_eq!(usize::try_from(effects)?, expected);
        assert!(calls.load(Ordering::SeqCst) >= MESSAGES as u64);
    }
    Ok(())
}
