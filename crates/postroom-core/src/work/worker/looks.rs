//! When a worker looks at the queue again.

use std::time::Duration;

use crate::support::clock::{Timestamp, monotonic};
use crate::telemetry;
use crate::work::worker::claims::Target;
use crate::work::worker::run_loop::Loop;

/// A message that became due during a claim is claimed again at once.
const JUST_DUE: Duration = Duration::from_millis(50);

impl Loop {
    pub(super) fn woken(&mut self) {
        self.look_now();
        if self.look_at > monotonic() {
            // Another one can look earlier.
            self.listener.looked(true);
        }
    }

    pub(super) fn look_now(&mut self) {
        self.look_at = monotonic().max(self.not_before);
    }

    /// Looks at the store again, unless it has not changed since nothing was found in it.
    pub(super) fn look_if_changed(&mut self) {
        let (topics, _) = self.wanted(&Target::WholeQueue);
        match self.quiet.as_ref().filter(|quiet| quiet.lasts(&self.queue, topics.as_ref())) {
            Some(quiet) => {
                telemetry::unchanged(self.queue.named());
                self.wait(quiet.next_at);
            }
            None => self.look_now(),
        }
    }

    /// Waits, because there is nothing to do: for a growing pause, or until the next message is due.
    pub(super) fn wait(&mut self, next_at: Option<Timestamp>) {
        let now = self.queue.time_hint();
        let until_due = next_at.and_then(|at| match at.since(now) {
            // A message that has been due for a while but cannot be claimed, because others hold it, must not cause a
            // busy loop.
            Duration::ZERO => (now.since(at) < JUST_DUE).then_some(Duration::from_millis(1)),
            due => Some(due + Duration::from_micros(200)),
        });
        let look_at = monotonic() + until_due.unwrap_or(self.idle_wait).min(self.idle_wait);
        self.look_at = look_at.max(self.not_before);
        self.idle_wait = (self.idle_wait * 2).min(self.options.poll_max);
    }
}
