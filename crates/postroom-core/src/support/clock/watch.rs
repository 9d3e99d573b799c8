//! A wall clock together with a monotonic one. The machine's own is shared by the whole process.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::carried::{Carried, Doubt, Look};
use super::{ClockJump, Timestamp, machine_says, monotonic};

/// A carried clock, and the point from which its monotonic times are counted.
#[derive(Debug)]
pub(super) struct Watch {
    origin: Instant,
    carried: Mutex<Carried>,
}

static MACHINE: LazyLock<Watch> = LazyLock::new(|| Watch::new(machine_says()));

/// Returns the machine's clock, after reading it.
pub(super) fn machine() -> &'static Watch {
    let asked = monotonic();
    MACHINE.hear(machine_says(), asked);
    &MACHINE
}

impl Watch {
    pub(super) fn new(said: Timestamp) -> Self {
        Self { origin: monotonic(), carried: Mutex::new(Carried::new(said, Duration::ZERO)) }
    }

    fn carried(&self) -> MutexGuard<'_, Carried> {
        self.carried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what the clock showed at some time since `asked`.
    pub(super) fn hear(&self, said: Timestamp, asked: Instant) -> Timestamp {
        let mut carried = self.carried();
        let (at, took) = (self.origin.elapsed(), asked.elapsed());
        carried.look(Look { said, took, at });
        carried.now(at)
    }

    pub(super) fn now(&self) -> Timestamp {
        let carried = self.carried();
        carried.now(self.origin.elapsed())
    }

    pub(super) fn jump(&self) -> Option<ClockJump> {
        let carried = self.carried();
        carried.jump(self.origin.elapsed())
    }

    pub(super) fn doubt(&self) -> Doubt {
        self.carried().doubt()
    }

    pub(super) fn accepted(&self) -> u64 {
        self.carried().accepted()
    }

    pub(super) fn take_news(&self) -> Option<ClockJump> {
        let mut carried = self.carried();
        carried.take_news(self.origin.elapsed())
    }
}
