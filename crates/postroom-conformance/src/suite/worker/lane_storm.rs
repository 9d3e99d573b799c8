//! Many workers and producers use the same lanes at once. Claims and enqueues are broken off, leases run out, messages
//! fail, die, are requeued and expire, and transactions that write into lanes stay open or are rolled back. Whatever
//! happens, each lane keeps its order, and nobody is left behind.

mod book;
mod crew;
mod guards;
mod straggler;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::try_join_all;
use postroom::operator::{Filter, Limit, Operator, Scope};
use postroom::queue::{Queue, State, Topics, WorkQueue};
use postroom::store::Store;
use postroom::{Inbox, Outbox};

use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Stage, Testable};
use crate::script::Running;
use crate::suite::seed;
use crate::wait::scale;
use book::Book;
use crew::{Crew, Producer, Worker};
use guards::{Guard, Guarded};

cases! { lane_storm:
    worker lanes_keep_their_order_whatever_happens [];
    spoken without_one_of_its_guards_the_storm_finds_what_goes_wrong [];
}

const WORKERS: u64 = 8;
const PRODUCERS: u64 = 4;
/// Each of them is what another process would be: it knows of the others only what the database says.
const STORES: usize = 3;
/// How many messages there are in each queue. `POSTROOM_SCALE` makes them more.
const MESSAGES: u64 = 400;
const LANES: u64 = 1000;
/// There are at least so many messages for each lane.
const EACH: u64 = 20;
/// So many rounds in a row may end nothing before what is left counts as left behind.
const IDLE_ROUNDS: u32 = 30;

async fn lanes_keep_their_order_whatever_happens<B: Testable>(stage: &Stage<B>) -> Verdict {
    storm(stage).await
}

/// Otherwise the storm would prove nothing.
async fn without_one_of_its_guards_the_storm_finds_what_goes_wrong<B: Guarded>(stage: &Stage<B>) -> Verdict {
    let Guard { what, taken_away, found } = B::GUARD;
    let open = stage.another("unguarded").await?;
    for sql in taken_away {
        B::say(&open.place, sql).await?;
    }
    let verdict = storm(&open).await;
    open.close().await;
    let why = verdict.err().with_context(|| format!("{what}: nothing was found"))?;
    anyhow::ensure!(format!("{why:#}").contains(found), "{what}: {why:#}");
    Ok(())
}

async fn storm<B: Testable>(stage: &Stage<B>) -> Verdict {
    for (queue, places) in [(Queue::Outbox, 1), (Queue::Inbox, 3)] {
        let limit = Limit::none().at_once(places);
        stage.side(queue).verbs().limit(Scope::lanes("a")?, limit, Operator::new("ada")?).await?;
        let (messages, places) = (MESSAGES * u64::from(scale()), usize::try_from(places)?);
        let book = Arc::new(Book::new(stage.clock.clone(), places));
        let mut stores: Vec<Arc<dyn Store>> = Vec::new();
        for _ in 0..STORES {
            stores.push(Arc::new(B::open_again(&stage.store, &stage.place).await?));
        }
        let crew = |number: u64| {
            let store = stores[usize::try_from(number).unwrap_or_default() % STORES].clone();
            let random = fastrand::Rng::with_seed(seed().wrapping_add(number));
            Crew { queue, store, book: book.clone(), clock: stage.clock.clone(), random }
        };
        let stragglers = Running::start(straggler::worker::<B>(stage.store.clone(), &book)?);
        let lanes = LANES.min(messages / EACH);
        let producers = (0..PRODUCERS).map(|number| Producer::new(crew(number), messages / PRODUCERS, lanes).run());
        let topics = Topics::except([straggler::TOPIC])?;
        let workers = (0..WORKERS).map(|number| Worker::new(crew(100 + number), Some(topics.clone())).run());
        let work = async {
            try_join_all(producers).await?;
            book.close();
            anyhow::Ok(())
        };
        let all = async { tokio::try_join!(work, try_join_all(workers), crew(1000).upset(), crew(1001).keep_house()) };
        drop(all.await.with_context(|| format!("POSTROOM_SEED={}", seed()))?);
        stragglers.stop().await?;
        finish(stage, queue, &book).await.with_context(|| format!("POSTROOM_SEED={}", seed()))?;
    }
    Ok(())
}

/// The storm is over. Everything that is left can be handled, in order.
async fn finish<B: Testable>(stage: &Stage<B>, queue: Queue, book: &Arc<Book>) -> Verdict {
    let store: Arc<dyn Store> = Arc::new(stage.store.clone());
    let (clock, random) = (stage.clock.clone(), fastrand::Rng::with_seed(0));
    let mut worker = Worker::new(Crew { queue, store: store.clone(), book: book.clone(), clock, random }, None);
    let verbs = verbs(&store, queue);
    for rule in verbs.rules().await?.into_iter().filter(|rule| rule.paused.is_some()) {
        verbs.resume(rule.scope, Operator::new("ada")?).await?;
    }
    let (mut idle, mut last) = (0, u64::MAX);
    loop {
        stage.clock.advance(LEASE * 2);
        let _ = verbs.reap(1000).await?;
        while worker.finish_some().await? > 0 {}
        let dead = verbs.list(Filter::all().state(State::Dead).limit(1000)).await?;
        for record in dead {
            let ended = book.ends(&book::id_of(&record));
            let operator = Operator::new("ada")?.because("the storm is over")?;
            ended.settled(verbs.dismiss(Filter::one(record.seq()), operator).await?);
        }
        let stats = verbs.stats().await?;
        let left = stats.ready + stats.leased + stats.dead;
        if left == 0 {
            break;
        }
        idle = if left < last { 0 } else { idle + 1 };
        last = left;
        anyhow::ensure!(idle < IDLE_ROUNDS, "{left} messages are left behind: {stats:?}");
    }
    let problems = book.problems();
    anyhow::ensure!(problems.is_empty(), "{} problems: {:#?}", problems.len(), &problems[..problems.len().min(5)]);
    book.check_all_ended()
}

fn verbs(store: &Arc<dyn Store>, queue: Queue) -> WorkQueue {
    match queue {
        Queue::Outbox => Outbox::of(store.clone()).queue().clone(),
        Queue::Inbox => Inbox::of(store.clone()).queue().clone(),
    }
}

/// How long those who find nothing to do wait. Nobody rings for them: other processes do not, either.
const PAUSE: Duration = Duration::from_millis(2);

/// Takes its time, as programs do.
#[allow(clippy::disallowed_methods, reason = "a storm is made of things that take longer than others")]
async fn rest(span: Duration) {
    tokio::time::sleep(span).await; // tidy: time itself
}
