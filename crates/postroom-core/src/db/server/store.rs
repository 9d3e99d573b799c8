//! The store itself: each verb is a transaction on one of our connections.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::db::server::group_commit::Gatherer;
use crate::db::server::{Engine, Pool, Purpose, ServerConnection, Settings, Signal, idle_poll, transact};
use crate::message::{ContentHash, InboxKey, Incoming, NewMessage};
use crate::queue::{ClaimRequest, Claims, Lease, Queue, Reaped, Settle, Settled, State, Verb};
use crate::sql::Statement;
use crate::store::outage::Outage;
use crate::store::sql::{Asked, SqlVerbs};
use crate::store::{
    Admission, Arrival, Audited, BoxFuture, Deed, Failed, FailedGroup, Failure, Filter, Hold, HoldChange, Holding,
    Identity, ManualMove, Operation, PutMode, QueueStats, Record, Sighting, Store, Stored, Wake,
};
use crate::support::clock::{Clock, ServerClock};
use crate::support::error::Result;
use crate::support::task::{in_background, run_to_completion};

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

/// What the store, its handlers and its transactions share.
pub(crate) struct ServerShared<E: Engine> {
    pub(crate) name: String,
    pub(crate) verbs: SqlVerbs,
    pub(crate) clock: Clock,
    /// For our own verbs.
    pub(crate) pool: Arc<Pool<E>>,
    /// For handlers, which hold a connection for as long as they run: verbs must not wait behind them.
    pub(crate) handler_pool: Arc<Pool<E>>,
    /// Whether a statement may run outside a transaction.
    pub(super) statements_alone: bool,
    /// The server's clock is carried on by ours for no longer than this.
    pub(super) hear_again_after: Duration,
    pub(crate) ack_outside: bool,
    pub(super) gatherer: Gatherer,
    pub(super) outage: Outage,
    wakes: [Wake; 2],
    signal: E::Signal,
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
        let pool = Pool::new(target.clone(), Purpose::SqlVerbs, settings.verb_connections(), &settings);
        let handler_pool = Pool::new(target.clone(), Purpose::Handlers, settings.connections, &settings);
        let (said, verbs) = {
            let (pool, deploy): (Arc<Pool<E>>, _) = (pool.clone(), settings.deploy_schema);
            run_to_completion(async move {
                let mut link = pool.get().await?;
                let said = link.hello().await?;
                let mut found = schema_version(&mut *link, &verbs).await?;
                // Tables that are there are left alone: even `IF NOT EXISTS` takes locks that those who work on them
                // would wait for, and be waited for.
                if deploy && found.is_none_or(|version| version < verbs.statements.schema_version) {
                    link.deploy(&verbs.statements.schema).await?;
                    found = schema_version(&mut *link, &verbs).await?;
                }
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
            gatherer: Gatherer::default(),
            outage: Outage::default(),
            wakes,
            signal,
            is_awaited: AtomicBool::new(false),
        });
        for queue in [Queue::Outbox, Queue::Inbox] {
            let (waiting, telling) = (Arc::downgrade(&core), Arc::downgrade(&core));
            let wake = &core.wakes[index(queue)];
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

    /// A verb in a transaction of its own.
    pub(super) fn verb<'a, A, T>(&'a self, args: A, verb: transact::TxFn<E, A, T>) -> BoxFuture<'a, Result<T>>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        Box::pin(self.0.transact(args, verb))
    }

    /// A verb after which there may be work in line.
    fn ringing<'a, A, T>(&'a self, queue: Queue, args: A, verb: transact::TxFn<E, A, T>) -> BoxFuture<'a, Result<T>>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        Box::pin(async move {
            let answer = self.0.transact(args, verb).await?;
            self.0.rang(queue);
            Ok(answer)
        })
    }
}

impl<E: Engine> ServerShared<E> {
    /// Rows came in: tells the workers of this process and of others.
    pub(crate) fn rang(&self, queue: Queue) {
        self.wakes[index(queue)].ring_everywhere();
    }
}

impl<E: Engine> ServerShared<E> {
    /// Nobody listens and looks before somebody waits: a store that only sends needs neither.
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

fn index(queue: Queue) -> usize {
    match queue {
        Queue::Outbox => 0,
        Queue::Inbox => 1,
    }
}

/// In a transaction: behind a pooler only that stays on one connection.
async fn schema_version(link: &mut impl ServerConnection, verbs: &SqlVerbs) -> Result<Option<i64>> {
    link.begin().await?;
    let found = verbs.schema_version(link).await?;
    link.roll_back().await?;
    Ok(found)
}

impl<E: Engine> Store for ServerStore<E> {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn clock(&self) -> &Clock {
        &self.0.clock
    }

    fn wake(&self, queue: Queue) -> &Wake {
        &self.0.wakes[index(queue)]
    }

    fn holding(&self, queue: Queue) -> &Holding {
        self.0.verbs.holding(queue)
    }

    fn enqueue(&self, messages: Vec<NewMessage>) -> BoxFuture<'_, Result<Vec<Stored>>> {
        Box::pin(async move {
            let stored = self.0.enqueue(messages).await?;
            self.0.rang(Queue::Outbox);
            Ok(stored)
        })
    }

    fn claim(&self, queue: Queue, request: ClaimRequest) -> BoxFuture<'_, Result<Claims>> {
        let asked = Asked::new(queue, request, self.0.verbs.is_look_due(queue, self.0.clock.now()));
        Box::pin(async move {
            let claims = self.0.transact_autocommit(
                asked,
                |verbs, link, asked, now| Box::pin(verbs.claim_briefly(link, asked, now)),
                |verbs, link, asked, now| Box::pin(verbs.claim_asked(link, asked, now)),
            );
            let claims = claims.await?;
            self.0.wakes[index(queue)].claimed(!claims.claimed.is_empty());
            Ok(claims)
        })
    }

    fn settle(&self, queue: Queue, settles: Arc<Vec<Settle>>) -> BoxFuture<'_, Result<Settled>> {
        let at_once = settles.iter().any(|settle| settle.verb == Verb::Release);
        Box::pin(async move {
            let settled = self.0.transact_autocommit(
                (queue, settles),
                |verbs, link, (queue, settles), now| Box::pin(verbs.autocommit_settle(link, *queue, settles, now)),
                |verbs, link, (queue, settles), now| Box::pin(verbs.settle(link, *queue, settles, now)),
            );
            let settled = settled.await?;
            if at_once {
                self.0.rang(queue);
            }
            Ok(settled)
        })
    }

    fn extend(&self, queue: Queue, leases: Vec<Lease>, lease: Duration) -> BoxFuture<'_, Result<Vec<bool>>> {
        self.verb((queue, leases, lease), |verbs, link, (queue, leases, lease), now| {
            Box::pin(verbs.extend(link, *queue, leases, *lease, now))
        })
    }

    fn reap(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Reaped>> {
        self.ringing(queue, (queue, limit), |verbs, link, (queue, limit), now| {
            Box::pin(verbs.reap(link, *queue, *limit, now))
        })
    }

    fn expire(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.verb((queue, limit), |verbs, link, (queue, limit), now| Box::pin(verbs.expire(link, *queue, *limit, now)))
    }

    fn expire_dead(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.verb((queue, limit), |verbs, link, (queue, limit), now| {
            Box::pin(verbs.expire_dead(link, *queue, *limit, now))
        })
    }

    fn purge(&self, queue: Queue, state: State, retention: Duration, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.verb((queue, state, retention, limit), |verbs, link, (queue, state, retention, limit), now| {
            Box::pin(verbs.purge(link, *queue, *state, now.minus(*retention), *limit))
        })
    }

    fn change(&self, queue: Queue, change: Operation, deed: Deed) -> BoxFuture<'_, Result<u64>> {
        self.ringing(queue, (queue, change, deed), |verbs, link, (queue, change, deed), now| {
            Box::pin(verbs.change(link, *queue, change, deed, now))
        })
    }

    fn audit(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Vec<Audited>>> {
        self.verb((queue, limit), |verbs, link, (queue, limit), _| Box::pin(verbs.audit(link, *queue, *limit)))
    }

    fn see(&self, key: InboxKey, hash: Option<ContentHash>) -> BoxFuture<'_, Result<Sighting>> {
        self.verb((key, hash), |verbs, link, (key, hash), now| Box::pin(verbs.see(link, key, hash.as_ref(), now)))
    }

    fn put(&self, incoming: Incoming, mode: PutMode) -> BoxFuture<'_, Result<Arrival>> {
        self.ringing(Queue::Inbox, (incoming, mode), |verbs, link, (incoming, mode), now| {
            Box::pin(verbs.put(link, incoming, *mode, now))
        })
    }

    fn refuse(&self, incoming: Incoming, why: String) -> BoxFuture<'_, Result<Admission>> {
        self.verb((incoming, why), |verbs, link, (incoming, why), now| Box::pin(verbs.refuse(link, incoming, why, now)))
    }

    fn mark(&self, key: InboxKey, mark: ManualMove) -> BoxFuture<'_, Result<bool>> {
        self.verb((key, mark), |verbs, link, (key, mark), now| Box::pin(verbs.mark(link, key, mark, now)))
    }

    fn find(&self, id: Identity) -> BoxFuture<'_, Result<Vec<Record>>> {
        self.verb(id, |verbs, link, id, _| Box::pin(verbs.find(link, id)))
    }

    fn list(&self, queue: Queue, filter: Filter) -> BoxFuture<'_, Result<Vec<Record>>> {
        self.verb((queue, filter), |verbs, link, (queue, filter), _| Box::pin(verbs.list(link, *queue, filter)))
    }

    fn failures(&self, queue: Queue, seq: i64) -> BoxFuture<'_, Result<Vec<Failure>>> {
        self.verb((queue, seq), |verbs, link, (queue, seq), _| Box::pin(verbs.failures(link, *queue, *seq)))
    }

    fn failed(&self, queue: Queue, filter: Filter) -> BoxFuture<'_, Result<Vec<Failed>>> {
        self.verb((queue, filter), |verbs, link, (queue, filter), _| Box::pin(verbs.failed(link, *queue, filter)))
    }

    fn failed_groups(&self, queue: Queue, rows: usize) -> BoxFuture<'_, Result<Vec<FailedGroup>>> {
        self.verb((queue, rows), |verbs, link, (queue, rows), _| Box::pin(verbs.failed_groups(link, *queue, *rows)))
    }

    fn hold(&self, queue: Queue, change: HoldChange) -> BoxFuture<'_, Result<()>> {
        self.verb((queue, change), |verbs, link, (queue, change), now| Box::pin(verbs.hold(link, *queue, change, now)))
    }

    fn holds(&self, queue: Queue) -> BoxFuture<'_, Result<Vec<Hold>>> {
        self.verb(queue, |verbs, link, queue, now| Box::pin(verbs.holds(link, *queue, now)))
    }

    fn overdue(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.verb((queue, limit), |verbs, link, (queue, limit), now| Box::pin(verbs.overdue(link, *queue, *limit, now)))
    }

    fn purgeable(&self, queue: Queue, retention: Duration, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.verb((queue, retention, limit), |verbs, link, (queue, retention, limit), now| {
            Box::pin(verbs.purgeable(link, *queue, now.minus(*retention), *limit))
        })
    }

    fn stats(&self, queue: Queue) -> BoxFuture<'_, Result<QueueStats>> {
        self.verb(queue, |verbs, link, queue, now| Box::pin(verbs.stats(link, *queue, now)))
    }

    fn backlog(&self, queue: Queue) -> BoxFuture<'_, Result<u64>> {
        self.verb(queue, |verbs, link, queue, _| Box::pin(verbs.backlog(link, *queue)))
    }

    fn inbox_size(&self) -> BoxFuture<'_, Result<u64>> {
        self.verb((), |verbs, link, (), _| Box::pin(verbs.inbox_size(link)))
    }

    fn insert_statement(&self, message: &NewMessage) -> Result<Statement> {
        Ok(self.0.verbs.insert(message, self.0.clock.now()))
    }

    fn accept_statement(&self, incoming: &Incoming) -> Result<Statement> {
        Ok(self.0.verbs.accept(incoming, self.0.clock.now()))
    }

    fn ack_statement(&self, queue: Queue, lease: &Lease, response: Option<&str>) -> Result<Statement> {
        Ok(self.0.verbs.ack(queue, lease, response, self.0.clock.now()))
    }

    fn check_schema(&self) -> BoxFuture<'_, Result<()>> {
        self.verb((), |verbs, link, (), _| {
            Box::pin(async move { verbs.check_schema(verbs.schema_version(link).await?) })
        })
    }

    /// Closes its connections; calls on this store or a clone of it fail from now on.
    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.pool.close();
        self.0.handler_pool.close();
        Box::pin(std::future::ready(()))
    }

    fn take_maintenance(&self, interval: Duration) -> BoxFuture<'_, Result<bool>> {
        self.verb(interval, |verbs, link, interval, now| Box::pin(verbs.take_maintenance(link, *interval, now)))
    }
}
