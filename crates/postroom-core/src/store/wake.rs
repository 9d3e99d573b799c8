//! Notifies a worker that there may be work, so that it need not poll.

mod in_turn;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
#[cfg(feature = "sqlx-0_9-postgres")]
use std::time::Duration;

use tokio::sync::watch;

use in_turn::{Line, Waiter};

/// Wakes listeners when rows arrive. Of the workers that wait, one after the other is woken, as long as there may be
/// more. A lost wake-up costs time, never messages, because workers also poll.
///
/// ```
/// use postroom::queue::Queue;
/// use postroom::store::{MemoryStore, Store};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = MemoryStore::new();
/// let mut listener = store.wake(Queue::Outbox).listen();
/// // After rows were stored in a way that the store does not see, such as plain SQL of another program.
/// store.wake(Queue::Outbox).ring();
/// listener.heard().await;
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Wake(Arc<Inner>);

struct Inner {
    rings: watch::Sender<u64>,
    workers: Line,
    listening: AtomicUsize,
    when_armed: OnceLock<Box<dyn Fn() + Send + Sync>>,
    tell_others: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Whether another process rang, and nobody has claimed since.
    from_afar: AtomicBool,
    /// How many of these rings in a row found nothing.
    in_vain: AtomicU32,
}

/// A notification that is sent to other processes with the commit of a message.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) channel: Arc<str>,
    pub(crate) text: String,
    /// Whether it was sent.
    pub(crate) is_told: AtomicBool,
}

/// The longest pause after a ring of another process, if these rings never find anything.
#[cfg(feature = "sqlx-0_9-postgres")]
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// After this many rings that found nothing, the pause is longest. After fewer, it is shorter.
#[cfg(feature = "sqlx-0_9-postgres")]
const IN_VAIN_MAX: u32 = 8;

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wake").field("rings", &self.rings).finish_non_exhaustive()
    }
}

impl Wake {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            rings: watch::Sender::new(0),
            workers: Line::default(),
            listening: AtomicUsize::new(0),
            when_armed: OnceLock::new(),
            tell_others: OnceLock::new(),
            from_afar: AtomicBool::new(false),
            in_vain: AtomicU32::new(0),
        }))
    }

    /// Wakes every listener.
    pub fn ring(&self) {
        self.ring_workers();
        self.ring_others();
    }

    /// Wakes one of the workers that wait, and returns whether there is one.
    pub(crate) fn ring_workers(&self) -> bool {
        self.0.workers.ring()
    }

    /// Wakes every listener but the workers.
    pub(crate) fn ring_others(&self) {
        self.0.rings.send_modify(|rings| *rings = rings.wrapping_add(1));
    }

    /// Wakes every listener, also those of other processes if there is a way to reach them.
    pub fn ring_everywhere(&self) {
        self.0.workers.ring_after(|| {
            self.ring_others();
            if let Some(tell) = self.0.tell_others.get() {
                tell();
            }
        });
    }

    /// Sets the function that wakes other processes.
    #[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
    pub(crate) fn tell_others_by(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.tell_others.set(Box::new(tell));
    }

    /// Wakes every listener, because another process rang.
    #[cfg(feature = "sqlx-0_9-postgres")]
    pub(crate) fn ring_from_afar(&self) {
        self.0.from_afar.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// Returns how long to wait before that. Every idle process hears each ring, and one of them gets the message.
    /// Those that keep coming too late wait for different times, so that a thousand of them do not query at the same
    /// moment.
    #[cfg(feature = "sqlx-0_9-postgres")]
    pub(crate) fn pause_from_afar(&self) -> Duration {
        let in_vain = self.0.in_vain.load(Ordering::SeqCst).min(IN_VAIN_MAX);
        PAUSE_MAX.mul_f64(fastrand::f64()) * in_vain / IN_VAIN_MAX
    }

    /// Returns whether workers of this process may have left something.
    #[cfg(feature = "sqlx-0_9-postgres")]
    pub(crate) fn has_more(&self) -> bool {
        self.0.workers.has_more()
    }

    /// Returns whether a worker of this process was woken for what came last.
    #[cfg(feature = "sqlx-0_9-postgres")]
    pub(crate) fn is_looking(&self) -> bool {
        self.0.workers.is_looking()
    }

    /// Records that somebody claimed, and whether that found something.
    #[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
    pub(crate) fn claimed(&self, found: bool) {
        if self.0.from_afar.swap(false, Ordering::SeqCst) {
            let in_vain = self.0.in_vain.load(Ordering::SeqCst).saturating_add(1);
            self.0.in_vain.store(if found { 0 } else { in_vain }, Ordering::SeqCst);
        }
    }

    /// Starts to listen. A ring after this call is heard, even if it comes before the wait.
    pub fn listen(&self) -> WakeListener {
        WakeListener {
            rings: self.0.rings.subscribe(),
            waiter: Waiter::new(),
            turn: None,
            inner: self.0.clone(),
            armed: false,
        }
    }

    /// Sets a function that is called whenever a listener starts to wait for other processes.
    pub(crate) fn when_armed(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.when_armed.set(Box::new(tell));
    }

    /// Returns whether anyone listens. Without listeners there is no need to watch a file.
    pub(crate) fn is_heard(&self) -> bool {
        self.0.listening.load(Ordering::SeqCst) > 0
    }
}

/// A listener.
///
/// ```
/// use postroom::{NewMessage, Outbox};
/// use postroom::queue::Queue;
/// use postroom::store::{MemoryStore, Store};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = MemoryStore::new();
/// let mut listener = store.wake(Queue::Outbox).listen();
/// Outbox::new(store).enqueue(NewMessage::new("order.placed", "{}")).await?;
/// listener.heard().await;
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct WakeListener {
    rings: watch::Receiver<u64>,
    waiter: Arc<Waiter>,
    /// The ring that it was woken for in its turn, until it has looked.
    turn: Option<u64>,
    inner: Arc<Inner>,
    armed: bool,
}

impl WakeListener {
    /// Asks to be woken for the commits of other processes too. Each one costs a look at the database.
    pub(crate) fn arm(&mut self) {
        if !std::mem::replace(&mut self.armed, true) {
            let others = self.inner.listening.fetch_add(1, Ordering::SeqCst);
            if let (0, Some(tell)) = (others, self.inner.when_armed.get()) {
                tell();
            }
        }
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.armed
    }

    /// Stops that: the listener is busy, and will look by itself.
    pub(crate) fn disarm(&mut self) {
        if std::mem::replace(&mut self.armed, false) {
            self.inner.listening.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Waits for the next ring.
    pub async fn heard(&mut self) {
        if self.rings.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until it is this worker's turn to look. Afterwards it must call [`WakeListener::looked`].
    pub(crate) async fn heard_in_turn(&mut self) {
        self.turn = Some(self.inner.workers.wait(&self.waiter).await);
    }

    /// Ends the turn. If something may be left for others, the next one gets it.
    pub(crate) fn looked(&mut self, may_be_more: bool) {
        match self.turn.take() {
            Some(_) if may_be_more => self.inner.workers.pass(),
            Some(ring) => self.inner.workers.claimed(ring),
            None => {}
        }
    }
}

impl Drop for WakeListener {
    fn drop(&mut self) {
        self.looked(true);
        self.disarm();
    }
}

#[cfg(all(test, feature = "sqlx-0_9-postgres"))]
mod tests {
    use super::*;

    #[test]
    fn only_rings_that_are_always_in_vain_wait_for_a_moment() {
        let wake = Wake::new();
        let ring = |found| {
            wake.ring_from_afar();
            wake.claimed(found);
        };
        let longest = || (0..200).map(|_| wake.pause_from_afar()).max().unwrap();
        assert_eq!(longest(), Duration::ZERO, "the first one does not wait");
        ring(false);
        let after_one = longest();
        assert!(after_one > Duration::ZERO && after_one <= PAUSE_MAX / IN_VAIN_MAX, "{after_one:?}");
        (0..IN_VAIN_MAX).for_each(|_| ring(false));
        assert!(longest() > PAUSE_MAX / 2 && longest() <= PAUSE_MAX);
        wake.claimed(false);
        ring(true);
        wake.claimed(false);
        assert_eq!(longest(), Duration::ZERO, "its own claims say nothing of rings");
    }
}
