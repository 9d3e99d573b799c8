//! The store itself: each operation is a transaction on one of our connections.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::db::server::group_commit::Gatherer;
use crate::db::server::migrate::{migrate, version};
use crate::db::server::transact::TxFn;
use crate::db::server::{Engine, Pool, Purpose, ServerConnection, Settings, Signal, idle_poll};
use crate::message::NewMessage;
use crate::queue::{ClaimRequest, Claims, Lease, Queue, Settle, Settled, Verb};
use crate::sql::steps::Way;
use crate::store::outage::Outage;
use crate::store::sql::{Asked, SqlVerbs};
use crate::store::{Fingerprint, Stored, Wake};
use crate::support::clock::{Clock, ServerClock};
use crate::support::error::Result;
use crate::support::task::{Portable, in_background, run_to_completion};

/// A store on a database server, beside the user's own tables. Cheap to clone.
///
/// ```
/// # #[cfg(feature = "sqlx-0_9-postgres")]
/// fn outbox(store: postroom::store::ServerStore<postroom::postgres::Postgres>) -> postroom::Outbox {
///     postroom::Outbox::new(store)
/// }
/// ```
#[allow(private_bounds, reason = "the engines are this crate's own")]
pub struct ServerStore<E: Engine>(pub(crate) Arc<ServerShared<E>>);

/// The state that the store, its handlers and its transactions share.
pub(crate) struct ServerShared<E: Engine> {
    pub(crate) name: String,
    pub(crate) verbs: SqlVerbs,
    pub(crate) clock: Clock,
    /// For the store's own statements.
    pub(crate) pool: Arc<Pool<E>>,
    /// For handlers, which keep a connection while they run: the store's own statements must not wait for them.
    pub(crate) handler_pool: Arc<Pool<E>>,
    /// Whether a statement may run outside a transaction.
    pub(super) statements_alone: bool,
    /// How long this machine's clock stands in for the server's clock before the server is asked again.
    pub(super) hear_again_after: Duration,
    pub(crate) ack_outside: bool,
    /// One for messages with a lane, where these wait for other transactions.
    pub(super) gatherers: [Gatherer; 2],
    /// For messages with a unique key, which may wait for somebody's open transaction. The renewal of a lease must not
    /// wait for them.
    pub(super) keyed: Semaphore,
    pub(super) outage: Outage,
    pub(crate) wakes: [Wake; 2],
    pub(super) signal: E::Signal,
    is_awaited: AtomicBool,
}

impl<E: Engine> fmt::Debug for ServerShared<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerShared").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<E: Engine> Clone for ServerStore<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E: Engine> fmt::Debug for ServerStore<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerStore").field("name", &self.0.name).finish_non_exhaustive()
    }
}

#[allow(private_bounds, reason = "the engines are this crate's own")]
impl<E: Engine> ServerStore<E> {
    pub(crate) async fn open(target: E::Target, settings: Settings) -> Result<Self> {
        let fence = settings.fence.unwrap_or(E::DIALECT.fence);
        let verbs = SqlVerbs::new(E::DIALECT, settings.tables.clone(), settings.dead_letter_topic.clone(), fence);
        let keyed = settings.verb_connections() / 2;
        let pool = Pool::new(target.clone(), Purpose::SqlVerbs, settings.verb_connections(), &settings);
        let handler_pool = Pool::new(target.clone(), Purpose::Handlers, settings.connections, &settings);
        let (said, verbs) = {
            let (pool, deploy): (Arc<Pool<E>>, _) = (pool.clone(), settings.deploy_schema);
            run_to_completion(async move {
                let mut link = pool.get().await?;
                let said = link.hello().await?;
                let found = match deploy {
                    true => migrate(&mut *link, &verbs, &Way::new(E::DIALECT, &verbs.tables), None).await?,
                    false => version(&mut *link, &verbs).await?,
                };
                verbs.check_schema(found)?;
                link.give_back();
                Ok((said, verbs))
            })
            .await?
        };
        let clock = match settings.clock.clone() {
            Clock::Manual(clock) => Clock::Manual(clock),
            _ => Clock::Server(ServerClock::new(said)),
        };
        let wakes = [Wake::new(), Wake::new()];
        let signal = E::Signal::new(target, &settings, wakes.clone());
        let core = Arc::new(ServerShared {
            name: settings.name,
            verbs: verbs.by(clock.clone()),
            clock,
            pool,
            handler_pool,
            statements_alone: settings.statements_alone,
            hear_again_after: settings.hear_again_after,
            ack_outside: settings.ack_outside,
            gatherers: Default::default(),
            keyed: Semaphore::new(keyed),
            outage: Outage::default(),
            wakes,
            signal,
            is_awaited: AtomicBool::new(false),
        });
        for queue in [Queue::Outbox, Queue::Inbox] {
            let (waiting, telling) = (Arc::downgrade(&core), Arc::downgrade(&core));
            let wake = &core.wakes[queue.index()];
            wake.when_armed(move || {
                if let Some(core) = waiting.upgrade() {
                    core.is_awaited_by_somebody();
                }
            });
            wake.tell_others_by(move || {
                if let Some(core) = telling.upgrade() {
                    core.signal.tell(queue, &core.pool);
                }
            });
        }
        Ok(Self(core))
    }
}

impl<E: Engine> ServerShared<E> {
    /// Notifies the workers of this process and of others that rows came in.
    pub(crate) fn rang(&self, queue: Queue) {
        self.wakes[queue.index()].ring_everywhere();
    }

    /// Runs a query on the server.
    pub(crate) async fn ask<A: Portable, T: Portable>(self: &Arc<Self>, args: A, verb: TxFn<E, A, T>) -> Result<T> {
        self.write(args, verb).await
    }

    /// Runs an operation after which there may be messages to claim.
    pub(crate) async fn ring<A, T>(self: &Arc<Self>, queue: Queue, args: A, verb: TxFn<E, A, T>) -> Result<T>
    where
        A: Portable,
        T: Portable,
    {
        let answer = self.write(args, verb).await?;
        self.rang(queue);
        Ok(answer)
    }

    pub(crate) async fn enqueue(self: &Arc<Self>, messages: Vec<NewMessage>) -> Result<Vec<Stored>> {
        self.gather(messages).await
    }

    pub(crate) async fn claim(self: &Arc<Self>, queue: Queue, request: ClaimRequest) -> Result<Claims> {
        let asked = Asked::new(queue, request, self.verbs.is_look_due(queue, self.clock.now()));
        let claims = self.write_autocommit(
            asked,
            |verbs, link, asked, now| Box::pin(verbs.claim_briefly(link, asked, now)),
            |verbs, link, asked, now| Box::pin(verbs.claim_asked(link, asked, now)),
        );
        let mut claims = claims.await?;
        let paused = self.verbs.of_paused_lanes(queue, &mut claims);
        if !paused.is_empty() {
            let _ = self.settle(queue, Arc::new(paused)).await?;
            claims.next_at = claims.claimed.is_empty().then(|| self.clock.now());
        }
        self.wakes[queue.index()].claimed(!claims.claimed.is_empty());
        Ok(claims)
    }

    pub(crate) async fn settle(self: &Arc<Self>, queue: Queue, settles: Arc<Vec<Settle>>) -> Result<Settled> {
        let at_once = settles.iter().any(|settle| settle.verb == Verb::Release);
        let settled = self.write_autocommit(
            (queue, settles),
            |verbs, link, (queue, settles), now| Box::pin(verbs.autocommit_settle(link, *queue, settles, now)),
            |verbs, link, (queue, settles), now| Box::pin(verbs.settle(link, *queue, settles, now)),
        );
        let settled = settled.await?;
        if at_once {
            self.rang(queue);
        }
        Ok(settled)
    }

    pub(crate) async fn extend(
        self: &Arc<Self>,
        queue: Queue,
        leases: Vec<Lease>,
        lease: Duration,
    ) -> Result<Vec<bool>> {
        let extend = self.write((queue, leases, lease), |verbs, link, (queue, leases, lease), now| {
            Box::pin(verbs.extend(link, *queue, leases, *lease, now))
        });
        extend.await
    }

    /// A server has no fingerprint: changes cannot be seen from outside.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        None
    }

    /// Closes the store's connections. Calls on this store or a clone of it fail from now on.
    pub(crate) async fn let_go(&self) {
        self.pool.close();
        self.handler_pool.close();
    }

    /// Starts listening and polling when the first worker waits: a store that only sends needs neither.
    fn is_awaited_by_somebody(self: &Arc<Self>) {
        if !self.is_awaited.swap(true, Ordering::SeqCst) {
            self.signal.listen();
            drop(in_background(idle_poll::beat(Arc::downgrade(self))));
        }
    }

    pub(super) fn wakes(&self) -> &[Wake; 2] {
        &self.wakes
    }
}
