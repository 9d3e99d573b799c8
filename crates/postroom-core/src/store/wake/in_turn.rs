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

    /// Something arrived: one of those that wait looks.
    pub(super) fn ring(&self) {
        let mut state = self.state();
        state.asked.clear();
        state.pass();
    }

    /// One that looked may have left something: the next one looks.
    pub(super) fn pass(&self) {
        self.state().pass();
    }

    /// Waits for the turn. Whoever stops waiting gives it to the next one.
    pub(super) async fn wait(&self, waiter: &Arc<Waiter>) {
        let entered = Entered { line: self, waiter };
        self.state().enter(waiter);
        while !entered.is_chosen() {
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
        let next = self.waiting.iter().position(|waiter| !self.asked.contains(&waiter.id));
        self.is_free = next.is_none();
        if let Some(next) = next {
            let next = self.waiting.swap_remove(next);
            self.asked.push(next.id);
            self.chosen.push(next.id);
            next.bell.notify_one();
        }
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
    fn is_chosen(&self) -> bool {
        self.line.state().take(self.waiter.id)
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

    fn is_ready(future: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        future.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn a_ring_wakes_one_and_each_passes_it_on_to_one_more() {
        let (line, first, second) = (Line::default(), Waiter::new(), Waiter::new());
        let (mut one, mut two) = (pin!(line.wait(&first)), pin!(line.wait(&second)));
        assert!(!is_ready(one.as_mut()) && !is_ready(two.as_mut()));
        line.ring();
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
    fn a_ring_that_nobody_waits_for_is_for_the_next_one() {
        let (line, first, second) = (Line::default(), Waiter::new(), Waiter::new());
        line.ring();
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
