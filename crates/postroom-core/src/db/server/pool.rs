//! Our connections to one database. A connection that is not returned explicitly is closed, because its state is
//! unknown.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::db::server::{Engine, Purpose, ServerConnection, Settings};
use crate::sql::{Done, Row, Session, Statement};
use crate::support::clock::{Timestamp, monotonic};
use crate::support::error::{Error, ErrorKind, Result};
use crate::support::task::in_background;

/// One idle connection is kept for the configured time, the others only for this long: many idle stores must not use up
/// a server's connections.
const SURPLUS_KEPT: Duration = Duration::from_secs(10);
/// How long a caller waits for a connection.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Pool<E: Engine> {
    target: E::Target,
    purpose: Purpose,
    connections: usize,
    permits: Arc<Semaphore>,
    idle_max: Duration,
    patience: Duration,
    idle: Mutex<Idle<E::ServerConnection>>,
}

struct Idle<L> {
    links: Vec<(Instant, L)>,
    is_swept: bool,
}

impl<L> std::fmt::Debug for Idle<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idle").field("links", &self.links.len()).finish()
    }
}

impl<E: Engine> Pool<E> {
    pub(crate) fn new(target: E::Target, purpose: Purpose, connections: usize, settings: &Settings) -> Arc<Self> {
        let Settings { idle, patience, .. } = *settings;
        let permits = Arc::new(Semaphore::new(connections));
        let links = Mutex::new(Idle { links: Vec::new(), is_swept: false });
        Arc::new(Self { target, purpose, connections, permits, idle_max: idle, patience, idle: links })
    }

    /// The most connections of this pool.
    pub(crate) fn size(&self) -> usize {
        self.connections
    }

    fn idle(&self) -> MutexGuard<'_, Idle<E::ServerConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets a connection. The server may have closed it since it was last used.
    pub(crate) async fn get(self: &Arc<Self>) -> Result<Pooled<E>> {
        let permit = tokio::time::timeout(PATIENCE, self.permits.clone().acquire_owned()).await;
        let permit = permit
            .map_err(|_| {
                let message = format!("all {} connections were in use for {PATIENCE:?}", self.connections);
                Error::new(ErrorKind::Unavailable, message)
            })?
            .map_err(|_| Error::new(ErrorKind::Closed, "the store was closed"))?;
        let kept = self.idle().links.pop();
        let is_fresh = kept.is_none();
        let link = match kept {
            Some((_, link)) => link,
            None => self.connect().await?,
        };
        let pool = self.clone();
        Ok(Pooled { link: Some(link), is_fresh, in_doubt: false, outage_at: None, pool, _permit: permit })
    }

    async fn connect(&self) -> Result<E::ServerConnection> {
        let patience = self.patience.min(PATIENCE);
        let link = tokio::time::timeout(patience, E::connect(&self.target, self.purpose)).await;
        let mut link = link
            .map_err(|_| Error::new(ErrorKind::Unavailable, format!("the server did not answer for {patience:?}")))??;
        link.patience().limit = self.patience;
        Ok(link)
    }

    /// Closes the idle connections: one of them was stale, so probably all are.
    pub(crate) fn close_idle(&self) {
        self.idle().links.clear();
    }

    /// Closes the idle connections, and gives out no more.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.close_idle();
    }

    fn take_back(self: &Arc<Self>, link: E::ServerConnection) {
        let mut idle = self.idle();
        if self.permits.is_closed() {
            return;
        }
        idle.links.push((monotonic(), link));
        if !std::mem::replace(&mut idle.is_swept, true) {
            // The task's handle is not kept: the task ends by itself when no connection is idle.
            drop(in_background(sweep(Arc::downgrade(self), self.idle_max)));
        }
    }
}

/// Closes connections that have not been used for a while, until none are idle.
async fn sweep<E: Engine>(pool: std::sync::Weak<Pool<E>>, idle_max: Duration) {
    loop {
        tokio::time::sleep_until((monotonic() + idle_max.min(SURPLUS_KEPT)).into()).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle();
        // The last connection in the list is the one that was used last.
        let last = idle.links.pop().filter(|(since, _)| since.elapsed() < idle_max);
        idle.links.retain(|(since, _)| since.elapsed() < idle_max.min(SURPLUS_KEPT));
        idle.links.extend(last);
        if idle.links.is_empty() {
            idle.is_swept = false;
            return;
        }
    }
}

/// A connection that is in use.
#[derive(Debug)]
pub(crate) struct Pooled<E: Engine> {
    link: Option<E::ServerConnection>,
    is_fresh: bool,
    /// Whether the same work was tried before with an unknown outcome.
    pub(crate) in_doubt: bool,
    /// When the database was last unreachable.
    pub(crate) outage_at: Option<Timestamp>,
    pool: Arc<Pool<E>>,
    _permit: OwnedSemaphorePermit,
}

impl<E: Engine> Pooled<E> {
    /// Returns the connection, which is in no transaction. If it is not in good order, it is closed.
    pub(crate) fn give_back(mut self) {
        if let Some(mut link) = self.link.take()
            && !link.patience().is_spent()
        {
            self.pool.take_back(link);
        }
    }

    /// Whether it was opened just now: an operation that fails on it would fail on another connection too.
    pub(crate) fn is_fresh(&self) -> bool {
        self.is_fresh
    }
}

impl<E: Engine> Deref for Pooled<E> {
    type Target = E::ServerConnection;

    fn deref(&self) -> &E::ServerConnection {
        self.link.as_ref().unwrap_or_else(|| unreachable!("only given back when it is consumed"))
    }
}

impl<E: Engine> DerefMut for Pooled<E> {
    fn deref_mut(&mut self) -> &mut E::ServerConnection {
        self.link.as_mut().unwrap_or_else(|| unreachable!("only given back when it is consumed"))
    }
}

impl<E: Engine> Session for Pooled<E> {
    async fn execute(&mut self, statement: &Statement) -> Result<Done> {
        (**self).execute(statement).await
    }

    async fn query<T: Send>(
        &mut self,
        statement: &Statement,
        read: impl FnMut(&dyn Row) -> Result<T> + Send,
    ) -> Result<Vec<T>> {
        (**self).query(statement, read).await
    }

    fn in_doubt(&self) -> bool {
        self.in_doubt
    }

    fn outage_at(&self) -> Option<Timestamp> {
        self.outage_at
    }
}
