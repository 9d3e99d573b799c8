//! Workers on many stores: in whose order, how many at once, and what one store can do to the others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom::WorkerOptions;
use postroom::queue::{Queue, State};
use postroom::store::Store;
use postroom::tenancy::{Candidate, DrainFirst, Fleet, LastTurn, RoundRobin, Selection, Stores};
use tokio::sync::{Notify, mpsc};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Stage, Testable, eventually, soon};
use crate::script::{Running, Script};

cases! { fleet:
    worker round_robin_takes_one_batch_from_each_in_order ["OBX-067", "OBX-068", "IBX-086", "IBX-087", "API-6.2"];
    worker drain_first_stays_with_a_store_until_it_is_empty ["OBX-067", "OBX-069", "IBX-086", "IBX-088"];
    worker a_selection_of_ones_own_is_followed ["OBX-067", "IBX-086"];
    worker every_line_about_a_message_names_its_store ["OBX-071", "IBX-090"];
    worker handlers_at_once_are_limited_for_all_stores_together [];
    worker a_message_in_any_store_is_handled_at_once [];
    worker all_stores_are_drained_at_the_end [];
    sqlite a_file_that_is_locked_does_not_stop_the_others [];
    sqlite commits_of_others_are_heard_in_more_files_than_are_open [];
}

const BATCH: usize = 4;
const QUEUES: [Queue; 2] = [Queue::Outbox, Queue::Inbox];

/// Some stores, and a fleet's view of them.
struct Tenants<B: Testable> {
    all: Vec<Stage<B>>,
    stores: Stores<B::Store>,
}

impl<B: Testable> Tenants<B> {
    async fn open(stage: &Stage<B>, names: &[&str]) -> anyhow::Result<Self> {
        let mut all = Vec::new();
        for name in names {
            all.push(stage.another(name).await?);
        }
        let stores = Stores::fixed(all.iter().map(|tenant| tenant.store.clone()))?;
        Ok(Self { all, stores })
    }

    fn fleet(&self, queue: Queue, script: &Script, options: WorkerOptions) -> Fleet<B> {
        let fleet = Fleet::new(&self.stores).options(options);
        match queue {
            Queue::Outbox => fleet.outbox(script.handlers()),
            Queue::Inbox => fleet.inbox(script.handlers()),
        }
    }

    /// Enqueues this many messages in each store, under a topic that says which.
    async fn fill(&self, queue: Queue, count: usize) -> anyhow::Result<()> {
        for (topic, tenant) in ["a", "b", "c"].into_iter().zip(&self.all) {
            tenant.side(queue).add_many(topic, count).await?;
        }
        Ok(())
    }

    /// Waits until this many are done in all stores together.
    async fn done(&self, queue: Queue, count: u64) -> anyhow::Result<()> {
        let done = || async {
            let mut done = 0;
            for tenant in &self.all {
                done += tenant.side(queue).verbs().stats().await?.done;
            }
            Ok(done == count)
        };
        eventually("all are done", done).await
    }
}

/// One handler at a time, so that what was begun in which order is what was claimed in which order.
fn one_by_one() -> WorkerOptions {
    WorkerOptions::default().batch(BATCH).concurrency(1)
}

/// The topics of the calls, each run of the same one shortened: `a4 b4`.
fn runs(script: &Script) -> String {
    let mut runs: Vec<(String, usize)> = Vec::new();
    for call in script.calls() {
        match runs.last_mut() {
            Some((topic, count)) if *topic == call.topic => *count += 1,
            _ => runs.push((call.topic.clone(), 1)),
        }
    }
    let runs: Vec<String> = runs.into_iter().map(|(topic, count)| format!("{topic}{count}")).collect();
    runs.join(" ")
}

async fn in_order<B: Testable>(stage: &Stage<B>, selection: impl Selection + Clone, expected: &str) -> Verdict {
    for queue in QUEUES {
        let tenants =
            Tenants::open(stage, &[&format!("{queue}-a"), &format!("{queue}-b"), &format!("{queue}-c")]).await?;
        tenants.fill(queue, 3 * BATCH).await?;
        let script = Script::succeed();
        let fleet = Running::sail(tenants.fleet(queue, &script, one_by_one()).selection(selection.clone()));
        tenants.done(queue, 9 * BATCH as u64).await?;
        fleet.stop().await?;
        assert_eq!(runs(&script), expected, "{queue}");
    }
    Ok(())
}

async fn round_robin_takes_one_batch_from_each_in_order<B: Testable>(stage: &Stage<B>) -> Verdict {
    in_order(stage, RoundRobin, "a4 b4 c4 a4 b4 c4 a4 b4 c4").await
}

async fn drain_first_stays_with_a_store_until_it_is_empty<B: Testable>(stage: &Stage<B>) -> Verdict {
    in_order(stage, DrainFirst, "a12 b12 c12").await
}

/// The last store that wants to goes first; and it sees the result of the last turn.
#[derive(Clone, Debug, Default)]
struct FromTheEnd(Arc<Mutex<Vec<Option<usize>>>>);

impl Selection for FromTheEnd {
    fn next(&self, stores: &[Candidate], last: Option<LastTurn>) -> Option<usize> {
        let found = last.and_then(|last| last.found);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(found);
        stores.iter().rposition(Candidate::wants_to_claim)
    }
}

async fn a_selection_of_ones_own_is_followed<B: Testable>(stage: &Stage<B>) -> Verdict {
    let selection = FromTheEnd::default();
    in_order(stage, selection.clone(), "c12 b12 a12").await?;
    let told = selection.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(told.contains(&Some(BATCH)) && told.contains(&Some(0)), "{told:?}");
    Ok(())
}

async fn every_line_about_a_message_names_its_store<B: Testable>(stage: &Stage<B>) -> Verdict {
    stage.setup.logs.listen();
    for queue in QUEUES {
        let tenants = Tenants::open(stage, &[&format!("{queue}-a"), &format!("{queue}-b")]).await?;
        let fleet = Running::sail(tenants.fleet(queue, &Script::succeed(), WorkerOptions::default()));
        let drafts = [Draft::new("a"), Draft::new("a")];
        for (tenant, draft) in tenants.all.iter().zip(&drafts) {
            tenant.side(queue).put(draft).await?;
        }
        tenants.done(queue, 2).await?;
        fleet.stop().await?;
        for (tenant, draft) in tenants.all.iter().zip(&drafts) {
            let id = draft.id.to_string();
            for message in ["handling", "handled"] {
                let lines = stage.setup.logs.saying(message);
                let lines: Vec<_> = lines.iter().filter(|line| line.field("message_id") == Some(&id)).collect();
                assert_eq!(lines.len(), 1, "{message}");
                assert_eq!(lines[0].field("store"), Some(tenant.store.name()));
            }
        }
    }
    Ok(())
}

async fn handlers_at_once_are_limited_for_all_stores_together<B: Testable>(stage: &Stage<B>) -> Verdict {
    let tenants = Tenants::open(stage, &["a", "b", "c"]).await?;
    for queue in QUEUES {
        tenants.fill(queue, 20).await?;
    }
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let script = Script::new(move |_| {
        let (now, most) = (now.clone(), most.clone());
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // The first ones stay until there are as many as may be; more than that would show.
            while most.load(Ordering::SeqCst) < 3 {
                tokio::task::yield_now().await;
            }
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(None)
        }
    });
    let fleet = tenants.fleet(Queue::Outbox, &script, WorkerOptions::default().concurrency(3));
    let fleet = Running::sail(fleet.inbox(script.handlers()));
    for queue in QUEUES {
        tenants.done(queue, 60).await?;
    }
    fleet.stop().await?;
    assert_eq!(seen.load(Ordering::SeqCst), 3);
    Ok(())
}

async fn a_message_in_any_store_is_handled_at_once<B: Testable>(stage: &Stage<B>) -> Verdict {
    const HOUR: Duration = Duration::from_secs(3600);
    let tenants = Tenants::open(stage, &["a", "b", "c", "d", "e"]).await?;
    let script = Script::succeed();
    let asleep = WorkerOptions::default().poll(HOUR).poll_max(HOUR);
    let fleet = Running::sail(tenants.fleet(Queue::Outbox, &script, asleep).inbox(script.handlers()));
    for n in 1..=5 {
        for tenant in tenants.all.iter().rev() {
            for side in tenant.sides() {
                side.add("a").await?;
                eventually("it is handled", || async move { Ok(side.verbs().stats().await?.done == n) }).await?;
            }
        }
    }
    fleet.stop().await
}

async fn all_stores_are_drained_at_the_end<B: Testable>(stage: &Stage<B>) -> Verdict {
    for queue in QUEUES {
        let tenants = Tenants::open(stage, &[&format!("{queue}-a"), &format!("{queue}-b")]).await?;
        tenants.fill(queue, 10).await?;
        let (begun, mut beginning) = mpsc::unbounded_channel();
        let gate = Arc::new(Notify::new());
        let opened = gate.clone();
        let script = Script::new(move |_| {
            begun.send(()).ok();
            let gate = gate.clone();
            async move {
                gate.notified().await;
                Ok(None)
            }
        });
        let options = WorkerOptions::default().batch(BATCH).concurrency(1);
        let mut fleet = Running::sail(tenants.fleet(queue, &script, options));
        soon("the first handler begins", beginning.recv()).await?;
        fleet.shut_down();
        let given_back = || async {
            let mut leased = 0;
            for tenant in &tenants.all {
                leased += tenant.side(queue).verbs().stats().await?.leased;
            }
            Ok(leased == 1)
        };
        eventually("what was not begun is given back", given_back).await?;
        opened.notify_one();
        soon("the fleet stops", fleet.stop()).await??;
        tenants.done(queue, 1).await?;
        for tenant in &tenants.all {
            let rows = tenant.side(queue).verbs().list(postroom::operator::Filter::all().state(State::Ready)).await?;
            assert!(rows.iter().all(|record| record.attempts() == 0 && record.crashes() == 0));
        }
    }
    Ok(())
}

async fn a_file_that_is_locked_does_not_stop_the_others(stage: &Stage<postroom::sqlite::Sqlite>) -> Verdict {
    let tenants = Tenants::open(stage, &["a", "b", "c"]).await?;
    for queue in QUEUES {
        tenants.fill(queue, 5).await?;
    }
    let lock = rusqlite::Connection::open(tenants.all[0].place.path("store.db"))?;
    lock.execute_batch("BEGIN IMMEDIATE")?;
    let script = Script::succeed();
    let fleet = tenants.fleet(Queue::Outbox, &script, one_by_one()).inbox(script.handlers());
    let fleet = Running::sail(fleet.claim_timeout(Duration::from_millis(20)));
    for tenant in &tenants.all[1..] {
        for side in tenant.sides() {
            side.add_many("later", 20).await?;
            eventually("it is handled", || async move { Ok(side.verbs().stats().await?.done == 25) }).await?;
        }
    }
    assert!(!script.calls().iter().any(|call| call.topic == "a"));
    lock.execute_batch("ROLLBACK")?;
    for queue in QUEUES {
        tenants.done(queue, 55).await?;
    }
    fleet.stop().await
}

/// Workers that do not look by themselves: what is not heard is not handled.
async fn commits_of_others_are_heard_in_more_files_than_are_open(stage: &Stage<postroom::sqlite::Sqlite>) -> Verdict {
    const HOUR: Duration = Duration::from_secs(3600);
    let names: Vec<String> = (0..50).map(|index| index.to_string()).collect();
    let tenants = Tenants::open(stage, &names.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let asleep = WorkerOptions::default().poll(HOUR).poll_max(HOUR);
    let fleet = Running::sail(tenants.fleet(Queue::Outbox, &Script::succeed(), asleep));
    let due = stage.now().as_micros();
    let sql = "INSERT INTO outbox_messages (id, topic, payload, visible_at) VALUES (randomblob(16), 'a', '{}', ?1)";
    for done in 1..=2 {
        for tenant in &tenants.all {
            let conn = rusqlite::Connection::open(tenant.place.path("store.db"))?;
            conn.execute_batch("PRAGMA synchronous = NORMAL")?;
            conn.execute(sql, [due])?;
            let side = tenant.side(Queue::Outbox);
            eventually("it is heard", || async move { Ok(side.verbs().stats().await?.done == done) }).await?;
        }
    }
    fleet.stop().await
}
