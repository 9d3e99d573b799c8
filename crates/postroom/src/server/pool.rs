//! Our connections to one database. One that is not given back explicitly is closed: nobody knows what state it is in.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::background::in_background;
use crate::clock::monotonic;
use crate::error::{Error, ErrorKind, Result};
use crate::server::{Engine, Link, Settings};

/// So long a caller waits for a connection.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Pool<E: Engine> {
    target: E::Target,
    connections: usize,
    permits: Arc<Semaphore>,
    /// Fewer than that: handlers that take their time must not keep the worker from renewing their leases.
    handlers: Arc<Semaphore>,
    idle_max: Duration,
    patience: Duration,
    idle: Mutex<Idle<E::Link>>,
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
    pub(crate) fn new(target: E::Target, settings: &Settings) -> Arc<Self> {
        let Settings { connections, idle, patience, .. } = *settings;
        let permits = Arc::new(Semaphore::new(connections));
        let handlers = Arc::new(Semaphore::new(connections - (connections / 8).max(1)));
        let links = Mutex::new(Idle { links: Vec::new(), is_swept: false });
        Arc::new(Self { target, connections, permits, handlers, idle_max: idle, patience, idle: links })
    }

    /// How many connections there can be.
    pub(crate) fn size(&self) -> usize {
        self.connections
    }

    fn idle(&self) -> MutexGuard<'_, Idle<E::Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection, perhaps one that the server has forgotten since it was last used.
    pub(crate) async fn get(self: &Arc<Self>) -> Result<Pooled<E>> {
        self.get_for(None).await
    }

    /// One for a handler, which may keep it for long.
    pub(crate) async fn get_for_handler(self: &Arc<Self>) -> Result<Pooled<E>> {
        let permit = self.permit(&self.handlers).await?;
        self.get_for(Some(permit)).await
    }

    async fn permit(&self, permits: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
        let permit = tokio::time::timeout(PATIENCE, permits.clone().acquire_owned()).await;
        permit
            .map_err(|_| {
                let message = format!("all {} connections were in use for {PATIENCE:?}", self.connections);
                Error::new(ErrorKind::Unavailable, message)
            })?
            .map_err(|_| Error::new(ErrorKind::Closed, "the store was closed"))
    }

    async fn get_for(self: &Arc<Self>, handler: Option<OwnedSemaphorePermit>) -> Result<Pooled<E>> {
        let permit = self.permit(&self.permits).await?;
        let kept = self.idle().links.pop();
        let link = match kept {
            Some((_, link)) => link,
            None => self.connect().await?,
        };
        Ok(Pooled { link: Some(link), pool: self.clone(), _permits: (permit, handler) })
    }

    async fn connect(&self) -> Result<E::Link> {
        let patience = self.patience.min(PATIENCE);
        let link = tokio::time::timeout(patience, E::connect(&self.target)).await;
        let mut link = link
            .map_err(|_| Error::new(ErrorKind::Unavailable, format!("the server did not answer for {patience:?}")))??;
        link.set_patience(self.patience);
        Ok(link)
    }

    /// Closes what is idle: one of them was stale, and so are probably all.
    pub(crate) fn close_idle(&self) {
        self.idle().links.clear();
    }

    /// Closes what is idle, and lets nobody in any more.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.handlers.close();
        self.close_idle();
    }

    fn take_back(self: &Arc<Self>, link: E::Link) {
        let mut idle = self.idle();
        if self.permits.is_closed() {
            return;
        }
        idle.links.push((monotonic(), link));
        if !std::mem::replace(&mut idle.is_swept, true) {
            // Its handle is not kept: it ends by itself when nothing is idle.
            drop(in_background(sweep(Arc::downgrade(self), self.idle_max)));
        }
    }
}

/// Closes connections that nobody has used for a while, until there are none.
async fn sweep<E: Engine>(pool: std::sync::Weak<Pool<E>>, idle_max: Duration) {
    loop {
        tokio::time::sleep_until((monotonic() + idle_max).into()).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle();
        idle.links.retain(|(since, _)| since.elapsed() < idle_max);
        if idle.links.is_empty() {
            idle.is_swept = false;
            return;
        }
    }
}

/// A connection that somebody uses.
#[derive(Debug)]
pub(crate) struct Pooled<E: Engine> {
    link: Option<E::Link>,
    pool: Arc<Pool<E>>,
    _permits: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}

impl<E: Engine> Pooled<E> {
    /// It is in good order and in no transaction.
    pub(crate) fn give_back(mut self) {
        if let Some(link) = self.link.take() {
            self.pool.take_back(link);
        }
    }
}

impl<E: Engine> Deref for Pooled<E> {
    type Target = E::Link;

    fn deref(&self) -> &E::Link {
        self.link.as_ref().unwrap_or_else(|| unreachable!("only given back when it is consumed"))
    }
}

impl<E: Engine> DerefMut for Pooled<E> {
    fn deref_mut(&mut self) -> &mut E::Link {
        self.link.as_mut().unwrap_or_else(|| unreachable!("only given back when it is consumed"))
    }
}
