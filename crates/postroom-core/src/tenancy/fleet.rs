//! The workers of many stores, run together.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::queue::Queue;
use crate::support::error::{Error, Result};
use crate::telemetry;
use crate::tenancy::stores::{Member, StoreProvider, Stores};
use crate::tenancy::turns::Turns;
use crate::tenancy::{RoundRobin, Selection};
use crate::work::delivery::Transport;
use crate::work::handler::{Backend, Handlers};
use crate::work::places::Places;
use crate::work::worker::{Filling, Loop, WorkerOptions};

/// A worker that failed is restarted after this time.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// Workers on the outbox, the inbox or both of every store of a provider, including stores that are added later.
///
/// Together they run at most [`WorkerOptions::concurrency`] handlers at once, and a [`Selection`] decides which store
/// claims next. A store that is slow or unreachable does not delay the others. A store that is removed is drained: its
/// workers finish what is in progress within the grace time, and release the rest.
///
/// ```no_run
/// # use postroom::Handlers;
/// # use postroom::sqlite::{Sqlite, SqliteStore};
/// # use postroom::tenancy::{DrainFirst, Fleet, Stores};
/// # async fn f(stores: Stores<SqliteStore>, handlers: Handlers<Sqlite>) -> postroom::Result<()> {
/// let shutdown = async { tokio::signal::ctrl_c().await.ok(); };
/// Fleet::new(&stores).inbox(handlers).selection(DrainFirst).run(shutdown).await
/// # }
/// ```
pub struct Fleet<B: Backend> {
    stores: Stores<B::Store>,
    outbox: Option<Handlers<B>>,
    inbox: Option<Handlers<B>>,
    transport: Option<Arc<dyn Transport>>,
    places: Places,
    options: WorkerOptions,
    selection: Arc<dyn Selection>,
    claim_timeout: Duration,
}

impl<B: Backend> Fleet<B> {
    /// Creates workers on the stores of `provider`. Choose their queues with [`outbox`](Self::outbox) and
    /// [`inbox`](Self::inbox).
    pub fn new(provider: &impl StoreProvider<Store = B::Store>) -> Self {
        Self {
            stores: provider.stores(),
            outbox: None,
            inbox: None,
            transport: None,
            places: Places::default(),
            options: WorkerOptions::default(),
            selection: Arc::new(RoundRobin),
            claim_timeout: Duration::from_secs(3),
        }
    }

    crate::setters! {
        /// Works on the outboxes. These handlers get the messages without a destination.
        pub fn outbox(mut self, handlers: Handlers<B>) { self.outbox = Some(handlers); }

        /// Works on the inboxes with these handlers.
        pub fn inbox(mut self, handlers: Handlers<B>) { self.inbox = Some(handlers); }

        /// Sends outbox messages that have a destination through this transport.
        pub fn transport(mut self, transport: impl Transport) { self.transport = Some(Arc::new(transport)); }

        /// Shares the state of places with other workers, and makes it visible.
        pub fn places(mut self, places: Places) { self.places = places; }

        /// Sets the options. The limit on running handlers applies to all stores together.
        pub fn options(mut self, options: WorkerOptions) { self.options = options; }

        /// Sets which store claims next if several want to; [`RoundRobin`] by default.
        pub fn selection(mut self, selection: impl Selection) { self.selection = Arc::new(selection); }

        /// Sets how long the other stores wait for a claim that is not answered; 3 s by default. They wait once. After
        /// that, nobody waits for this store until it has answered again.
        pub fn claim_timeout(mut self, timeout: Duration) { self.claim_timeout = timeout; }
    }

    /// Runs until `shutdown` is ready. Then all workers finish what is in progress within the grace time, and release
    /// the rest.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        let mut stores = self.stores.clone();
        let mut crew = Crew::new(self)?;
        let mut shutdown = pin!(shutdown);
        crew.follow(stores.look().members());
        crew.teams.iter().for_each(|team| team.turns.open());
        telemetry::fleet_started(crew.stops.len());
        loop {
            tokio::select! {
                () = stores.changed() => crew.follow(stores.look().members()),
                Some(_) = crew.tasks.join_next(), if !crew.tasks.is_empty() => {}
                () = &mut shutdown => break,
            }
        }
        crew.stop_all();
        while crew.tasks.join_next().await.is_some() {}
        telemetry::fleet_stopped();
        Ok(())
    }
}

/// The running workers.
struct Crew<B: Backend> {
    teams: Vec<Team<B>>,
    /// Stops the workers of a store, by its number.
    stops: HashMap<u64, CancellationToken>,
    tasks: JoinSet<()>,
}

/// The workers on one of the two queues.
struct Team<B: Backend> {
    queue: Queue,
    options: Arc<WorkerOptions>,
    filling: Filling<B>,
    turns: Arc<Turns>,
}

impl<B: Backend> Crew<B> {
    fn new(fleet: Fleet<B>) -> Result<Self> {
        let options = fleet.options.checked()?;
        if fleet.claim_timeout.is_zero() {
            return Err(Error::invalid("the claim patience of a fleet must be longer than zero"));
        }
        let mut teams: Vec<Team<B>> = Vec::new();
        for (queue, handlers) in [(Queue::Outbox, fleet.outbox), (Queue::Inbox, fleet.inbox)] {
            let Some(handlers) = handlers else { continue };
            let (handlers, transport) = (handlers.checked()?, fleet.transport.clone());
            let policies = handlers.tuning.applied(&options.policies);
            let options = WorkerOptions { policies, ..options.clone() };
            let turns = Turns::new(fleet.selection.clone(), &options, fleet.claim_timeout);
            let mut filling = Filling::new(Arc::new(handlers), transport, fleet.places.clone(), &options);
            if let Some(team) = teams.first() {
                filling.share_slots_of(&team.filling);
            }
            teams.push(Team { queue, options: Arc::new(options), filling, turns });
        }
        if teams.is_empty() {
            return Err(Error::invalid("a fleet needs handlers for the outboxes or the inboxes, or for both"));
        }
        Ok(Self { teams, stops: HashMap::new(), tasks: JoinSet::new() })
    }

    /// Starts workers on new stores, and stops the workers on stores that are gone.
    fn follow(&mut self, members: &[Arc<Member<B::Store>>]) {
        let there: HashMap<u64, &Arc<Member<B::Store>>> = members.iter().map(|member| (member.id, member)).collect();
        for (_, stop) in self.stops.extract_if(|id, _| !there.contains_key(id)) {
            stop.cancel();
        }
        for member in members {
            if !self.stops.contains_key(&member.id) {
                let stop = CancellationToken::new();
                self.teams.iter().for_each(|team| team.start(member, &stop, &mut self.tasks));
                self.stops.insert(member.id, stop);
            }
        }
    }

    fn stop_all(&mut self) {
        self.stops.drain().for_each(|(_, stop)| stop.cancel());
    }
}

impl<B: Backend> Team<B> {
    fn start(&self, member: &Arc<Member<B::Store>>, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
        let (member, stop, options) = (member.clone(), stop.clone(), self.options.clone());
        let queue = match self.queue {
            Queue::Outbox => member.outbox.queue().clone(),
            Queue::Inbox => member.inbox.queue().clone(),
        };
        let (process, places) = (self.filling.process(&member.store, self.queue), self.filling.places.clone());
        let gate = self.turns.seat(member.key.as_str());
        tasks.spawn(async move {
            // The store is in use until this task has ended.
            let _member = member;
            loop {
                let worker =
                    Loop::new(queue.clone(), process.clone(), options.clone(), places.clone(), Some(gate.clone()));
                match Box::pin(worker.run(stop.cancelled())).await {
                    Ok(()) => return,
                    Err(error) => telemetry::worker_broke_down(queue.named(), &error),
                }
                let _ = timeout(RESTART_AFTER, stop.cancelled()).await;
            }
        });
    }
}

impl<B: Backend> fmt::Debug for Fleet<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Fleet");
        debug.field("stores", &self.stores).field("outbox", &self.outbox).field("inbox", &self.inbox);
        debug.field("selection", &self.selection).finish_non_exhaustive()
    }
}
