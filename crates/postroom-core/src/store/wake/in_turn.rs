//! Workers that wait for the same queue are woken one after the other: a lone message makes one of them look. Each that
//! may have left something passes the turn on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

#[derive(Default, Debug)]
pub(super) struct Line(Mutex<State>);

#[derive(Default, Debug)]
struct State {
    waiting: Vec<Arc<Waiter>>,
    /// Those that were woken since the last ring.
    asked: Vec<u64>,
    /// Those that were woken and have not noticed yet.
    chosen: Vec<u64>,
    rings: u64,
    /// What arrived up to this ring was claimed by workers of this process.
    claimed: u64,
    /// Nobody waited who was not asked before. The next one to wait looks at once.
    is_free: bool,
}

#[derive(Debug)]
pub(super) struct Waiter {
    id: u64,
    bell: Notify,
}

impl Waiter {
    pub(super) fn new() -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self { id: NEXT.fetch_add(1, Ordering::Relaxed), bell: Notify::new() })
    }
}

impl Line {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something arrived: one of those that wait looks. Returns false if nobody waits.
    pub(super) fn ring(&self) -> bool {
        self.ring_after(|| {})
    }

    /// Does the same, and calls `before` when it is known who looks. The one that was woken last runs first, so what
    /// starts others comes before.
    pub(super) fn ring_after(&self, before: impl FnOnce()) -> bool {
        let next = {
            let mut state = self.state();
            state.rings += 1;
            state.asked.clear();
            state.choose()
        };
        before();
        next.inspect(|next| next.bell.notify_one()).is_some()
    }

    /// One that looked since this ring got everything.
    pub(super) fn claimed(&self, ring: u64) {
        let mut state = self.state();
        state.claimed = state.claimed.max(ring);
    }

    /// Returns whether something may be left that arrived.
    #[cfg(feature = "sqlx-0_9-postgres")]
    pub(super) fn has_more(&self) -> bool {
        let state = self.state();
        state.rings > state.claimed
    }

    /// Returns whether one of those that wait was woken for the last ring.
    #[cfg(feature = "sqlx-0_9-postgres")]
    pub(super) fn is_looking(&self) -> bool {
        !self.state().asked.is_empty()
    }

    /// One that looked may have left something: the next one looks.
    pub(super) fn pass(&self) {
        self.state().pass();
    }

    /// Waits for the turn, and returns the ring that it is for. Whoever stops waiting gives the turn to the next one.
    pub(super) async fn wait(&self, waiter: &Arc<Waiter>) -> u64 {
        let entered = Entered { line: self, waiter };
        self.state().enter(waiter);
        loop {
            if let Some(ring) = entered.chosen_for() {
                return ring;
            }
            waiter.bell.notified().await;
        }
    }
}

impl State {
    fn enter(&mut self, waiter: &Arc<Waiter>) {
        self.waiting.push(waiter.clone());
        if self.is_free {
            self.pass();
        }
    }

    fn pass(&mut self) {
        if let Some(next) = self.choose() {
            next.bell.notify_one();
        }
    }

    fn choose(&mut self) -> Option<Arc<Waiter>> {
        let next = self.waiting.iter().position(|waiter| !self.asked.contains(&waiter.id));
        self.is_free = next.is_none();
        let next = self.waiting.swap_remove(next?);
        self.asked.push(next.id);
        self.chosen.push(next.id);
        Some(next)
    }

    /// Returns whether this one was chosen, and forgets it.
    fn take(&mut self, id: u64) -> bool {
        let before = self.chosen.len();
        self.chosen.retain(|chosen| *chosen != id);
        self.chosen.len() < before
    }
}

struct Entered<'a> {
    line: &'a Line,
    waiter: &'a Waiter,
}

impl Entered<'_> {
    fn chosen_for(&self) -> Option<u64> {
        let mut state = self.line.state();
        state.take(self.waiter.id).then_some(state.rings)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut state = self.line.state();
        state.waiting.retain(|waiter| waiter.id != self.waiter.id);
        if state.take(self.waiter.id) {
            state.asked.retain(|asked| *asked != self.waiter.id);
            state.pass();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_ready(future: std::pin::Pin<&mut impl Future<Output = u64>>) -> bool {
        matches!(future.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(_))
    }

    #[test]
    fn a_ring_wakes_one_and_each_passes_it_on_to_one_more() {
        let (line, first, second) = (Line::default(), Waiter::new(), Waiter::new());
        let (mut one, mut two) = (pin!(line.wait(&first)), pin!(line.wait(&second)));
        assert!(!is_ready(one.as_mut()) && !is_ready(two.as_mut()));
        assert!(line.ring(), "somebody waited");
        assert!(is_ready(one.as_mut()) && !is_ready(two.as_mut()));
        line.pass();
        assert!(is_ready(two.as_mut()));
        line.pass();
        let mut again = pin!(line.wait(&first));
        assert!(!is_ready(again.as_mut()), "it has looked since the ring");
        line.ring();
        assert!(is_ready(again.as_mut()));
    }

    #[test]
    #[cfg(feature = "sqlx-0_9-postgres")]
    fn nothing_is_left_once_somebody_got_everything() {
        let (line, waiter) = (Line::default(), Waiter::new());
        assert!(!line.has_more());
        line.ring();
        assert!(line.has_more() && !line.is_looking(), "nobody waits");
        assert!(is_ready(pin!(line.wait(&waiter))));
        assert!(line.has_more() && line.is_looking());
        line.claimed(1);
        assert!(!line.has_more());
        line.ring();
        line.claimed(1);
        assert!(line.has_more(), "something arrived since");
    }

    #[test]
    fn a_ring_that_nobody_waits_for_is_for_the_next_one() {
        let (line, first, second) = (Line::default(), Waiter::new(), Waiter::new());
        assert!(!line.ring());
        assert!(is_ready(pin!(line.wait(&first))));
        assert!(!is_ready(pin!(line.wait(&second))));
    }

    #[test]
    fn whoever_stops_waiting_gives_its_turn_to_the_next_one() {
        let (line, first, second) = (Line::default(), Waiter::new(), Waiter::new());
        let mut two = pin!(line.wait(&second));
        {
            let mut one = pin!(line.wait(&first));
            assert!(!is_ready(one.as_mut()) && !is_ready(two.as_mut()));
            line.ring();
        }
        assert!(is_ready(two.as_mut()));
        line.pass();
        assert!(is_ready(pin!(line.wait(&first))), "it has not looked");
    }
}
