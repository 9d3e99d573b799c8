//! Wake-ups between processes: NOTIFY, sent outside the producer's transaction, at most once every few milliseconds.
//! Inside the transaction it would make commits wait for each other. Only a lone message is stored and notified of in
//! one statement. Without notifications, workers poll.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::runtime::Handle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::db::postgres::Postgres;
use crate::db::postgres::dialect::NOTIFY;
use crate::db::postgres::driver_sqlx_09::PgTarget;
use crate::db::server::{Pool, Settings, Signal};
use crate::queue::Queue;
use crate::sql::{Session, Statement, Value};
use crate::store::{News, Wake};
use crate::support::clock::monotonic;
use crate::support::task::in_background;
use crate::telemetry;

/// Wake-ups within this pause are sent as one.
const PAUSE: Duration = Duration::from_millis(2);
/// A message that comes this long after the one before it notifies with its own commit.
const LULL: Duration = Duration::from_millis(5);
const RETRY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Notify {
    channel: Option<Arc<str>>,
    /// Follows the name of the queue in what this store sends: it does not listen to itself.
    signature: Arc<str>,
    wakes: [Wake; 2],
    pending: Arc<[AtomicBool; 2]>,
    is_sending: Arc<AtomicBool>,
    lull: Lull,
    /// `None` until a worker waits for wake-ups.
    ear: Mutex<Option<Ear>>,
    gone: DropGuard,
}

impl Signal<Postgres> for Notify {
    fn new(target: PgTarget, settings: &Settings, wakes: [Wake; 2]) -> Self {
        let channel: Arc<str> = settings.tables.channel().into();
        let signature: Arc<str> = format!(" {:016x}", fastrand::u64(..)).into();
        let (name, pending) = (settings.name.clone(), Arc::default());
        let (channels, signatures) = (channel.clone(), signature.clone());
        let ear = Ear { target, channel: channels, signature: signatures, name, wakes: wakes.clone(), pending };
        Self {
            channel: settings.notify.then_some(channel),
            signature,
            wakes,
            pending: Arc::default(),
            is_sending: Arc::default(),
            lull: Lull::default(),
            ear: Mutex::new(Some(ear).filter(|_| settings.notify)),
            gone: CancellationToken::new().drop_guard(),
        }
    }

    fn listen(&self) {
        let ear = self.ear.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ear) = ear {
            drop(in_background(ear.listen(self.gone.token().clone())));
        }
    }

    fn news(&self) -> Option<News> {
        let channel = self.channel.clone()?;
        let is_first = self.lull.is_over() && !self.is_sending.load(Ordering::SeqCst);
        // If a worker of this process gets it, the others need not look.
        let is_for_others = !self.wakes[Queue::Outbox.index()].is_heard();
        let text = format!("{}{}", Queue::Outbox.as_str(), self.signature);
        (is_first && is_for_others).then(|| News { channel, text, is_told: AtomicBool::new(false) })
    }

    fn tell(&self, queue: Queue, pool: &Arc<Pool<Postgres>>) {
        let Some(channel) = &self.channel else { return };
        // The caller may run after the end of the runtime. Then the other processes poll.
        if Handle::try_current().is_err() {
            return;
        }
        self.pending[usize::from(queue == Queue::Inbox)].store(true, Ordering::SeqCst);
        if !self.is_sending.swap(true, Ordering::SeqCst) {
            let voice = Voice {
                channel: channel.clone(),
                signature: self.signature.clone(),
                wakes: self.wakes.clone(),
                pending: self.pending.clone(),
                is_sending: self.is_sending.clone(),
                pool: pool.clone(),
            };
            drop(in_background(voice.speak()));
        }
    }
}

/// Whether the last lone message was long enough ago. Commits that notify wait for each other, so that only those do
/// that have nobody to wait for.
#[derive(Debug, Default)]
struct Lull(Mutex<Option<Instant>>);

impl Lull {
    fn is_over(&self) -> bool {
        let (mut last, now) = (self.0.lock().unwrap_or_else(PoisonError::into_inner), monotonic());
        last.replace(now).is_none_or(|last| now.duration_since(last) > LULL)
    }
}

struct Voice {
    channel: Arc<str>,
    signature: Arc<str>,
    wakes: [Wake; 2],
    pending: Arc<[AtomicBool; 2]>,
    is_sending: Arc<AtomicBool>,
    pool: Arc<Pool<Postgres>>,
}

impl Voice {
    async fn speak(self) {
        loop {
            // If a worker of this process gets everything, the others need not look.
            if self.wakes.iter().zip(&*self.pending).any(|(wake, is)| is.load(Ordering::SeqCst) && wake.is_looking()) {
                tokio::time::sleep_until((monotonic() + PAUSE).into()).await;
            }
            for (pending, queue) in self.pending.iter().zip([Queue::Outbox, Queue::Inbox]) {
                if pending.swap(false, Ordering::SeqCst) && self.wakes[queue.index()].has_more() {
                    self.notify(queue).await;
                }
            }
            tokio::time::sleep_until((monotonic() + PAUSE).into()).await;
            if self.is_quiet() {
                self.is_sending.store(false, Ordering::SeqCst);
                // Another caller may have signalled between the check and the store, and relies on this one.
                if self.is_quiet() || self.is_sending.swap(true, Ordering::SeqCst) {
                    return;
                }
            }
        }
    }

    fn is_quiet(&self) -> bool {
        !self.pending.iter().any(|pending| pending.load(Ordering::SeqCst))
    }

    /// Notifies other processes. An error only costs them some time, because they poll.
    async fn notify(&self, queue: Queue) {
        let Ok(mut link) = self.pool.get().await else { return };
        let text = |text: &str| Value::Text(Some(text.to_owned()));
        let news = format!("{}{}", queue.as_str(), self.signature);
        let notify = Statement::new(NOTIFY.into(), vec![text(&self.channel), text(&news)]);
        if link.query(&notify, |_| Ok(())).await.is_ok() {
            link.give_back();
        }
    }
}

/// Returns which queue a notification is for, unless the store with this signature sent it itself: its workers were
/// woken then. Other programs send only the name of the queue.
fn of_others(news: &str, signature: &str) -> Option<Queue> {
    let queue = if news.starts_with(Queue::Inbox.as_str()) { Queue::Inbox } else { Queue::Outbox };
    (!news.ends_with(signature)).then_some(queue)
}

#[derive(Debug)]
struct Ear {
    target: PgTarget,
    channel: Arc<str>,
    signature: Arc<str>,
    name: String,
    wakes: [Wake; 2],
    /// For each queue, whether a wake-up is waiting to be sent.
    pending: Arc<[AtomicBool; 2]>,
}

impl Ear {
    /// Listens until the store is dropped.
    async fn listen(self, store_is_gone: CancellationToken) {
        let listening = async {
            loop {
                let Err(error) = self.hear().await;
                telemetry::listening_failed(&self.name, &error);
                tokio::time::sleep_until((monotonic() + RETRY).into()).await;
            }
        };
        tokio::select! {
            () = listening => {}
            () = store_is_gone.cancelled() => {}
        }
    }

    async fn hear(&self) -> Result<Infallible, sqlx::Error> {
        let pool = PgPoolOptions::new().max_connections(1).connect_with(self.target.options()).await?;
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(&self.channel).await?;
        // Rows that came in before we listened were not notified.
        self.wakes.iter().for_each(Wake::ring);
        loop {
            let Some(news) = listener.try_recv().await? else {
                return Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into()));
            };
            if let Some(queue) = of_others(news.payload(), &self.signature) {
                self.ring(queue.index());
            }
        }
    }

    fn ring(&self, queue: usize) {
        let wake = self.wakes[queue].clone();
        let pause = wake.pause_from_afar();
        if pause.is_zero() {
            return wake.ring_from_afar();
        }
        if !self.pending[queue].swap(true, Ordering::SeqCst) {
            let pending = self.pending.clone();
            drop(in_background(async move {
                tokio::time::sleep_until((monotonic() + pause).into()).await;
                // A notification from now on is a separate wake-up.
                pending[queue].store(false, Ordering::SeqCst);
                wake.ring_from_afar();
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_does_not_wake_itself() {
        assert_eq!(of_others("outbox 01", " 01"), None);
        assert_eq!(of_others("inbox 01", " 01"), None);
        assert_eq!(of_others("outbox 02", " 01"), Some(Queue::Outbox));
        assert_eq!(of_others("inbox 02", " 01"), Some(Queue::Inbox));
        assert_eq!(of_others("outbox", " 01"), Some(Queue::Outbox), "by a function or another program");
    }
}
