//! Our own transactions: begun, committed, and retried with the same ids if the database asks for it or if the outcome
//! of the commit is unknown.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::db::errors::refuses_writes;
use crate::db::server::{Began, Engine, Pooled, ServerConnection, ServerShared};
use crate::store::BoxFuture;
use crate::store::sql::SqlVerbs;
use crate::support::clock::{Clock, Timestamp, monotonic};
use crate::support::error::{Error, ErrorKind, Result};
use crate::support::task::{Portable, run_to_completion};
use crate::telemetry;

/// An operation with its arguments passed separately, so that it can run again.
pub(crate) type TxFn<E, A, T> =
    for<'v> fn(&'v SqlVerbs, &'v mut Pooled<E>, &'v A, Timestamp) -> BoxFuture<'v, Result<T>>;

/// How often deadlocks and lost races are retried.
const CONFLICTS_MAX: u32 = 20;
/// How long we try to find out the outcome of a commit without an answer.
const DOUBT_MAX: Duration = Duration::from_secs(10);
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// How an attempt failed.
enum Failed {
    /// The connection was stale, or led to a read-only server: nothing was done on it.
    Stale(Error),
    /// Nothing was stored.
    RolledBack(Error),
    /// The commit had no answer.
    InDoubt(Error, Timestamp),
}

impl Failed {
    fn error(&self) -> &Error {
        match self {
            Self::Stale(error) | Self::RolledBack(error) | Self::InDoubt(error, _) => error,
        }
    }
}

impl<E: Engine> ServerShared<E> {
    /// Runs an operation in its own transaction.
    pub(crate) async fn write<A: Portable, T: Portable>(self: &Arc<Self>, args: A, verb: TxFn<E, A, T>) -> Result<T> {
        let core = self.clone();
        run_to_completion(async move { core.retry_until_known(&args, None, verb).await }).await
    }

    /// Runs an operation as one statement that commits by itself, if possible; otherwise in its own transaction.
    pub(crate) async fn write_autocommit<A: Portable, T: Portable>(
        self: &Arc<Self>,
        args: A,
        alone: TxFn<E, A, Option<T>>,
        verb: TxFn<E, A, T>,
    ) -> Result<T> {
        let core = self.clone();
        let alone = Some(alone).filter(|_| self.statements_alone && !self.is_clock_old());
        run_to_completion(async move { core.retry_until_known(&args, alone, verb).await }).await
    }

    async fn retry_until_known<A: Sync, T: Send>(
        self: &Arc<Self>,
        args: &A,
        mut alone: Option<TxFn<E, A, Option<T>>>,
        verb: TxFn<E, A, T>,
    ) -> Result<T> {
        let began = monotonic();
        let (mut doubt, mut stale, mut conflicts) = (None, 0, 0);
        let mut pause = PAUSE_MIN;
        loop {
            let tried = match alone.take() {
                Some(alone) => self.once_autocommit(args, alone, verb).await,
                None => match self.pool.get().await {
                    Ok(link) => self.transaction(link, args, verb, doubt).await,
                    Err(error) => Err(Failed::RolledBack(error)),
                },
            };
            if tried.as_ref().is_err_and(|failed| failed.error().kind() == ErrorKind::Unavailable) {
                self.outage.note(self.clock.now());
            }
            let (error, again) = match tried {
                Ok(answer) => return Ok(answer),
                Err(Failed::Stale(error)) => {
                    // After a restart of the server every idle connection is stale.
                    stale += 1;
                    self.pool.close_idle();
                    (error, stale <= self.pool.size() || doubt.is_some())
                }
                Err(Failed::RolledBack(error)) => {
                    conflicts += u32::from(error.kind() == ErrorKind::NotCommitted);
                    let is_conflict = error.kind() == ErrorKind::NotCommitted && conflicts < CONFLICTS_MAX;
                    let is_outage = error.kind() == ErrorKind::Unavailable && doubt.is_some();
                    (error, is_conflict || is_outage)
                }
                Err(Failed::InDoubt(error, now)) => {
                    telemetry::commit_in_doubt(&self.name, &error);
                    doubt = Some(now);
                    (error, true)
                }
            };
            if !again || doubt.is_some() && began.elapsed() > DOUBT_MAX {
                return Err(error);
            }
            if conflicts > 0 || doubt.is_some() {
                let jitter = pause.mul_f64(fastrand::f64());
                tokio::time::sleep_until((monotonic() + jitter).into()).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    /// Runs one statement that commits by itself, in one round trip. If the connection breaks, the outcome is unknown.
    async fn once_autocommit<A: Sync, T: Send>(
        self: &Arc<Self>,
        args: &A,
        alone: TxFn<E, A, Option<T>>,
        verb: TxFn<E, A, T>,
    ) -> Result<T, Failed> {
        let mut link = self.pool.get().await.map_err(Failed::RolledBack)?;
        let now = match &self.clock {
            Clock::Server(clock) => clock.tick(),
            other => other.now(),
        };
        match alone(&self.verbs, &mut link, args, now).await {
            Ok(Some(answer)) => {
                link.give_back();
                Ok(answer)
            }
            Ok(None) => self.transaction(link, args, verb, None).await,
            // The server reports that nothing was stored, and another server may have taken over.
            Err(error) if refuses_writes(&error) => Err(Failed::Stale(error)),
            Err(error) if error.kind() == ErrorKind::Unavailable => Err(Failed::InDoubt(error, now)),
            Err(error) => Err(Failed::RolledBack(error)),
        }
    }

    async fn transaction<A: Sync, T: Send>(
        &self,
        mut link: Pooled<E>,
        args: &A,
        verb: TxFn<E, A, T>,
        doubt: Option<Timestamp>,
    ) -> Result<T, Failed> {
        (link.in_doubt, link.outage_at) = (doubt.is_some(), self.outage.at());
        let asked = monotonic();
        let began = link.begin().await.and_then(Began::writable);
        let said = began.map_err(if link.is_fresh() { Failed::RolledBack } else { Failed::Stale })?;
        let now = doubt.unwrap_or_else(|| self.hear(said, asked));
        match verb(&self.verbs, &mut link, args, now).await {
            Ok(answer) => match link.commit().await {
                Ok(()) => {
                    link.give_back();
                    Ok(answer)
                }
                Err(error) if error.kind() == ErrorKind::Unavailable => Err(Failed::InDoubt(error, now)),
                Err(error) => Err(Failed::RolledBack(error)),
            },
            Err(error) => {
                if link.roll_back().await.is_ok() {
                    link.give_back();
                }
                Err(Failed::RolledBack(error))
            }
        }
    }

    /// Whether the server's time was read too long ago. A statement that commits by itself does not return the time, so
    /// a process that only sends begins a transaction now and then to read it again.
    fn is_clock_old(&self) -> bool {
        matches!(&self.clock, Clock::Server(clock) if clock.heard_ago() >= self.hear_again_after)
    }

    /// The time that applies to this transaction.
    pub(super) fn hear(&self, said: Timestamp, asked: Instant) -> Timestamp {
        match &self.clock {
            Clock::Server(clock) => clock.hear(said, asked),
            Clock::Database => said,
            Clock::Manual(clock) => clock.now(),
        }
    }
}
