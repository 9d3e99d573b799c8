//! Stores that come and go.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postroom::queue::{Queue, State};
use postroom::tenancy::{Discovered, Discovery, DiscoveryOptions, Fleet, Router, StoreKey, StoreProvider};
use postroom::{Error, ErrorKind, WorkerOptions};
use tokio::sync::{Notify, mpsc};
use tracing::Level;

use crate::case::{Verdict, cases};
use crate::harness::{Stage, Testable, eventually, soon};
use crate::script::{Running, Script};

cases! { discovery:
    worker databases_are_discovered_every_now_and_then ["OBX-075", "IBX-093"];
    worker every_five_minutes_unless_told_otherwise ["OBX-076", "IBX-094"];
    worker what_is_new_is_opened_and_worked_on ["OBX-077", "IBX-095"];
    worker what_is_gone_is_drained_and_closed ["OBX-078", "IBX-096"];
    worker what_has_not_changed_stays_the_same_store ["OBX-079", "IBX-097"];
    worker what_has_changed_is_opened_anew ["OBX-079", "IBX-097"];
    worker after_a_failure_everything_stays_as_it_was [];
    worker a_key_that_is_found_twice_is_a_failure [];
    worker what_cannot_be_opened_keeps_no_other_out_and_is_tried_again [];
    worker a_store_must_be_named_after_its_key [];
    worker everything_is_closed_in_the_end [];
}

/// A discovery that says what the case tells it to.
struct Told<B: Testable>(Arc<Tenants<B>>);

struct Tenants<B: Testable> {
    all: HashMap<StoreKey, Stage<B>>,
    found: Mutex<Found>,
    asked: AtomicUsize,
    opened: Mutex<Vec<StoreKey>>,
}

#[derive(Default)]
struct Found {
    /// Each with a version of its configuration.
    databases: Vec<(StoreKey, u32)>,
    fails: bool,
    locked: Vec<StoreKey>,
}

impl<B: Testable> Discovery for Told<B> {
    type Store = B::Store;
    type Config = u32;

    async fn discover(&self) -> postroom::Result<Vec<(StoreKey, u32)>> {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        let found = self.0.found();
        if found.fails {
            return Err(Error::callback("the catalogue is on fire"));
        }
        Ok(found.databases.clone())
    }

    async fn open(&self, key: &StoreKey, _: &u32) -> postroom::Result<B::Store> {
        if self.0.found().locked.contains(key) {
            return Err(Error::callback("the database is on fire"));
        }
        self.0.opened.lock().unwrap_or_else(PoisonError::into_inner).push(key.clone());
        let tenant = self.0.all.get(key).ok_or_else(|| Error::callback("nobody of that name"))?;
        B::open_again(&tenant.store, &tenant.place).await
    }
}

impl<B: Testable> Tenants<B> {
    async fn open(stage: &Stage<B>, suffixes: &[&str]) -> anyhow::Result<Arc<Self>> {
        let mut all = HashMap::new();
        for suffix in suffixes {
            let tenant = stage.another(suffix).await?;
            all.insert(tenant.place.name().into(), tenant);
        }
        let (found, asked, opened) = (Mutex::default(), AtomicUsize::new(0), Mutex::default());
        Ok(Arc::new(Self { all, found, asked, opened }))
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, suffix: &str) -> StoreKey {
        let ends = |key: &&StoreKey| key.as_str().ends_with(&format!("-{suffix}"));
        self.all.keys().find(ends).cloned().unwrap_or_else(|| suffix.into())
    }

    fn tenant(&self, suffix: &str) -> &Stage<B> {
        &self.all[&self.key(suffix)]
    }

    /// From now on these are found.
    fn are(&self, suffixes: &[(&str, u32)]) {
        self.found().databases = suffixes.iter().map(|(suffix, version)| (self.key(suffix), *version)).collect();
    }

    async fn start(self: &Arc<Self>) -> postroom::Result<Discovered<Told<B>>> {
        Discovered::start(Told(self.clone()), DiscoveryOptions::default()).await
    }

    fn keys(&self, suffixes: &[&str]) -> Vec<StoreKey> {
        suffixes.iter().map(|suffix| self.key(suffix)).collect()
    }

    /// How often each was opened.
    fn opened(&self) -> BTreeMap<StoreKey, usize> {
        let mut counts = BTreeMap::new();
        for key in self.opened.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            *counts.entry(key.clone()).or_default() += 1;
        }
        counts
    }
}

fn fleet<B: Testable>(discovered: &Discovered<Told<B>>, script: &Script, options: WorkerOptions) -> Running {
    let fleet: Fleet<B> = Fleet::new(discovered).outbox(script.handlers()).inbox(script.handlers());
    Running::sail(fleet.options(options))
}

async fn databases_are_discovered_every_now_and_then<B: Testable>(stage: &Stage<B>) -> Verdict {
    let tenants = Tenants::open(stage, &["a", "b"]).await?;
    tenants.are(&[("a", 1)]);
    let often = DiscoveryOptions::default().refresh(Duration::from_millis(5));
    let discovered = Discovered::start(Told(tenants.clone()), often).await?;
    eventually("it asks again", || async { Ok(tenants.asked.load(Ordering::SeqCst) >= 4) }).await?;
    assert_eq!(discovered.stores().keys(), tenants.keys(&["a"]));
    tenants.are(&[("a", 1), ("b", 1)]);
    eventually("what is new is found", || async { Ok(discovered.stores().len() == 2) }).await?;
    discovered.close().await;
    Ok(())
}

async fn every_five_minutes_unless_told_otherwise<B: Testable>(stage: &Stage<B>) -> Verdict {
    assert_eq!(DiscoveryOptions::default().refresh_interval(), Duration::from_secs(300));
    let tenants = Tenants::open(stage, &["a"]).await?;
    let discovered = tenants.start().await?;
    tenants.are(&[("a", 1)]);
    assert!(discovered.stores().is_empty());
    assert_eq!(discovered.refresh().await?.added, tenants.keys(&["a"]));
    assert_eq!(discovered.stores().keys(), tenants.keys(&["a"]));
    assert_eq!(tenants.asked.load(Ordering::SeqCst), 2, "nobody else has asked");
    let never = DiscoveryOptions::default().refresh(Duration::ZERO);
    let refused = Discovered::start(Told(tenants.clone()), never).await.err().map(|error| error.kind());
    assert_eq!(refused, Some(ErrorKind::InvalidInput));
    discovered.close().await;
    Ok(())
}

async fn what_is_new_is_opened_and_worked_on<B: Testable>(stage: &Stage<B>) -> Verdict {
    let tenants = Tenants::open(stage, &["a", "b", "c"]).await?;
    tenants.are(&[("a", 1)]);
    let discovered = tenants.start().await?;
    let router = Router::new(&discovered);
    let fleet = fleet(&discovered, &Script::succeed(), WorkerOptions::default());
    for suffix in ["b", "c"] {
        let tenant = tenants.tenant(suffix);
        for side in tenant.sides() {
            side.add("a").await?;
        }
        assert!(router.outbox(tenants.key(suffix)).is_err());
    }
    tenants.are(&[("c", 1), ("a", 1), ("b", 1)]);
    assert_eq!(discovered.refresh().await?.added, tenants.keys(&["b", "c"]));
    for suffix in ["b", "c"] {
        assert_eq!(router.inbox(tenants.key(suffix))?.queue().store_name(), tenants.key(suffix).as_str());
        for side in tenants.tenant(suffix).sides() {
            let done = || async move { Ok(side.verbs().stats().await?.done == 1) };
            eventually("what waited there is handled", done).await?;
        }
    }
    fleet.stop().await?;
    discovered.close().await;
    Ok(())
}

async fn what_is_gone_is_drained_and_closed<B: Testable>(stage: &Stage<B>) -> Verdict {
    stage.setup.logs.listen();
    let tenants = Tenants::open(stage, &["a", "b"]).await?;
    tenants.are(&[("a", 1), ("b", 1)]);
    let discovered = tenants.start().await?;
    let router = Router::new(&discovered);
    let (begun, mut beginning) = mpsc::unbounded_channel();
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let script = Script::new(move |call| {
        let (gate, begun) = (gate.clone(), begun.clone());
        async move {
            if call.message.topic == "slow" {
                begun.send(()).ok();
                gate.notified().await;
            }
            Ok(None)
        }
    });
    let fleet = fleet(&discovered, &script, WorkerOptions::default());
    let (gone, stays) = (tenants.tenant("a"), tenants.tenant("b"));
    for side in gone.sides() {
        side.add("slow").await?;
        soon("the handler begins", beginning.recv()).await?;
    }
    tenants.are(&[("b", 1)]);
    assert_eq!(discovered.refresh().await?.removed, tenants.keys(&["a"]));
    assert_eq!(router.outbox(tenants.key("a")).err().map(|error| error.kind()), Some(ErrorKind::UnknownStore));
    let closed = || stage.setup.logs.saying("store closed").len();
    let stopping = || stage.setup.logs.saying("worker stopping").len();
    eventually("its workers stop claiming", || async { Ok(stopping() == 2) }).await?;
    for queue in [Queue::Outbox, Queue::Inbox] {
        gone.side(queue).add("late").await?;
        stays.side(queue).add("a").await?;
        let done = || async { Ok(stays.side(queue).verbs().stats().await?.done == 1) };
        eventually("the other store is worked on", done).await?;
    }
    assert_eq!(closed(), 0, "it is in use");
    (0..2).for_each(|_| opened.notify_one());
    eventually("it is closed", || async {
        opened.notify_one();
        Ok(closed() == 1)
    })
    .await?;
    for side in gone.sides() {
        let states = [State::Done, State::Ready];
        let rows = side.verbs().list(postroom::operator::Filter::all()).await?;
        assert_eq!(
            rows.iter().map(postroom::operator::Record::state).collect::<Vec<_>>(),
            states,
            "what was begun is done"
        );
    }
    fleet.stop().await?;
    discovered.close().await;
    Ok(())
}

async fn what_has_not_changed_stays_the_same_store<B: Testable>(stage: &Stage<B>) -> Verdict {
    let tenants = Tenants::open(stage, &["a", "b", "c"]).await?;
    tenants.are(&[("a", 1), ("b", 1)]);
    let discovered = tenants.start().await?;
    let router = Router::new(&discovered);
    let door = |suffix| router.outbox(tenants.key(suffix)).map(|outbox| outbox.queue().store_name().as_ptr().addr());
    let before = [door("a")?, door("b")?];
    for found in [&[("b", 1), ("a", 1)][..], &[("a", 1), ("c", 1), ("b", 1)], &[("a", 1), ("b", 1)]] {
        tenants.are(found);
        let refreshed = discovered.refresh().await?;
        assert_eq!((refreshed.kept, refreshed.failed.len()), (found.len().min(2), 0));
        assert_eq!([door("a")?, door("b")?], before);
    }
    let once = tenants.keys(&["a", "b", "c"]).into_iter().map(|key| (key, 1)).collect();
    assert_eq!(tenants.opened(), once);
    discovered.close().await;
    Ok(())
}

async fn what_has_changed_is_opened_anew<B: Testable>(stage: &Stage<B>) -> Verdict {
    let tenants = Tenants::open(stage, &["a", "b"]).await?;
    tenants.are(&[("a", 1), ("b", 1)]);
    let discovered = tenants.start().await?;
    let fleet = fleet(&discovered, &Script::succeed(), WorkerOptions::default());
    tenants.are(&[("a", 2), ("b", 1)]);
    let refreshed = discovered.refresh().await?;
    assert_eq!((refreshed.added, refreshed.removed), (tenants.keys(&["a"]), tenants.keys(&["a"])));
    assert_eq!(tenants.opened(), [(tenants.key("a"), 2), (tenants.key("b"), 1)].into());
    let side = tenants.tenant("a").side(Queue::Outbox);
    side.add("a").await?;
    eventually("it is worked on", || async move { Ok(side.verbs().stats().await?.done == 1) }).await?;
    fleet.stop().await?;
    discovered.close().await;
    Ok(())
}

async fn after_a_failure_everything_stays_as_it_was<B: Testable>(stage: &Stage<B>) -> Verdict {
    stage.setup.logs.listen();
    let tenants = Tenants::open(stage, &["a", "b"]).await?;
    tenants.are(&[("a", 1), ("b", 1)]);
    let discovered = tenants.start().await?;
    tenants.found().fails = true;
    for warnings in 1..=3 {
        assert!(discovered.refresh().await.is_err());
        assert_eq!(discovered.stores().keys(), tenants.keys(&["a", "b"]));
        let lines = stage.setup.logs.saying("discovery failed; the stores stay as they are");
        assert_eq!(lines.len(), warnings);
        assert!(lines.iter().all(|line| line.level == Level::WARN));
        assert!(lines[0].field("error").is_some_and(|error| error.contains("on fire")), "{lines:?}");
    }
    tenants.found().fails = false;
    assert_eq!(discovered.refresh().await?.kept, 2);
    assert_eq!(tenants.opened().values().sum::<usize>(), 2);
    discovered.close().await;
    tenants.found().fails = true;
    assert!(tenants.start().await.is_err(), "there is nothing to go on with");
    Ok(())
}

async fn a_key_that_is_found_twice_is_a_failure<B: Testable>(stage: &Stage<B>) -> Verdict {
    let tenants = Tenants::open(stage, &["a", "b"]).await?;
    tenants.are(&[("a", 1), ("b", 1)]);
    let discovered = tenants.start().await?;
    tenants.are(&[("a", 1), ("b", 2), ("a", 2)]);
    let refused = discovered.refresh().await.err().ok_or_else(|| anyhow::anyhow!("it was taken"))?;
    assert!(refused.to_string().contains(tenants.key("a").as_str()), "{refused}");
    assert_eq!(discovered.stores().keys(), tenants.keys(&["a", "b"]));
    assert_eq!(tenants.opened().values().sum::<usize>(), 2, "nothing was opened");
    discovered.close().await;
    Ok(())
}

async fn what_cannot_be_opened_keeps_no_other_out_and_is_tried_again<B: Testable>(stage: &Stage<B>) -> Verdict {
    let tenants = Tenants::open(stage, &["a", "b", "c"]).await?;
    tenants.are(&[("a", 1), ("b", 1), ("c", 1)]);
    tenants.found().locked = tenants.keys(&["b"]);
    let discovered = tenants.start().await?;
    assert_eq!(discovered.stores().keys(), tenants.keys(&["a", "c"]));
    let refreshed = discovered.refresh().await?;
    assert_eq!(refreshed.failed.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(), tenants.keys(&["b"]));
    tenants.found().locked.clear();
    assert_eq!(discovered.refresh().await?.added, tenants.keys(&["b"]));
    assert_eq!(discovered.stores().keys(), tenants.keys(&["a", "b", "c"]));
    discovered.close().await;
    Ok(())
}

/// Opens the right database under the wrong name.
struct Misnamed<B: Testable>(Told<B>);

impl<B: Testable> Discovery for Misnamed<B> {
    type Store = B::Store;
    type Config = u32;

    async fn discover(&self) -> postroom::Result<Vec<(StoreKey, u32)>> {
        Ok(vec![("acme".into(), 1)])
    }

    async fn open(&self, _: &StoreKey, config: &u32) -> postroom::Result<B::Store> {
        self.0.open(&self.0.0.key("a"), config).await
    }
}

async fn a_store_must_be_named_after_its_key<B: Testable>(stage: &Stage<B>) -> Verdict {
    let tenants = Tenants::open(stage, &["a"]).await?;
    let discovered = Discovered::start(Misnamed(Told(tenants.clone())), DiscoveryOptions::default()).await?;
    assert!(discovered.stores().is_empty());
    let failed = discovered.refresh().await?.failed;
    let why = failed.first().map(|(_, error)| error.to_string()).unwrap_or_default();
    assert!(why.contains("acme") && why.contains(tenants.key("a").as_str()), "{why}");
    discovered.close().await;
    Ok(())
}

async fn everything_is_closed_in_the_end<B: Testable>(stage: &Stage<B>) -> Verdict {
    stage.setup.logs.listen();
    let tenants = Tenants::open(stage, &["a", "b"]).await?;
    tenants.are(&[("a", 1), ("b", 1)]);
    let discovered = tenants.start().await?;
    let stores = discovered.stores();
    let fleet = fleet(&discovered, &Script::succeed(), WorkerOptions::default());
    // Nobody is working on them any more, so this does not wait for long.
    fleet.stop().await?;
    soon("discovery ends", discovered.close()).await?;
    assert!(stores.is_empty());
    assert_eq!(stage.setup.logs.saying("store closed").len(), 2);
    Ok(())
}
