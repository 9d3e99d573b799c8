//! Pauses beyond the lease: a worker that wakes up from one must not settle what others have taken over.
//!
//! On SQLite a process is never stopped while it holds a database's write lock: the parent holds both locks at that
//! moment. Otherwise everybody would stand still with it, and nobody could take anything over.

use std::time::Duration;

use anyhow::Result;

use super::crew::PRODUCER;
use super::ground::Base;
use super::nemesis::Nemesis;
use super::pace::now;
use super::rows::{Held, Rows, latest};
use super::wire::{Order, Stop};

/// How a worker is paused, and what has become of its messages when it wakes up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pause {
    /// Between delivery and ack; another worker holds the message by then, or has settled it.
    Courier { held: bool },
    /// With handlers about to run; another worker holds one of the messages by then, or has settled it.
    Handler { held: bool },
    /// At a named place outside a transaction, for a little longer than the lease.
    Brief(Stop),
    /// At any moment.
    Anywhere,
}

/// How a pause went.
enum Met {
    AsPlanned,
    /// The worker did not get to the place where it was to be paused.
    NotReached,
    /// Nobody took its messages over in time.
    NotTakenOver,
}

/// A message that was held is claimed again two seconds after its lease: until then there is time for other things.
const BEFORE_TAKEOVER: Duration = Duration::from_millis(1400);
/// How long a takeover may take beyond two leases.
const TAKEOVER: Duration = Duration::from_millis(5200);
const KILLS_MEANWHILE: usize = 2;
/// How long a woken worker may take to have its settle refused.
const REFUSAL_MAX: Duration = Duration::from_millis(500);
/// How long a worker that runs takes to settle what it held.
const SETTLING: Duration = Duration::from_millis(100);
/// How long a worker takes from its claim to waiting for the write lock.
const QUEUEING: Duration = Duration::from_millis(30);

impl Pause {
    /// Every kind, those first that a short run must not miss.
    pub(crate) const ALL: [Self; 8] = [
        Self::Courier { held: true },
        Self::Handler { held: true },
        Self::Brief(Stop::Sent),
        Self::Anywhere,
        Self::Courier { held: false },
        Self::Brief(Stop::ClaimedInbox),
        Self::Handler { held: false },
        Self::Brief(Stop::ClaimedOutbox),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Courier { held: true } => "courier-held",
            Self::Courier { held: false } => "courier-settled",
            Self::Handler { held: true } => "handler-held",
            Self::Handler { held: false } => "handler-settled",
            Self::Brief(_) => "brief",
            Self::Anywhere => "anywhere",
        }
    }
}

impl Nemesis {
    /// Pauses a worker; says how it went.
    pub(crate) fn pause(&mut self, pause: Pause) -> Result<&'static str> {
        let who = self.worker(None);
        let met = match pause {
            Pause::Courier { held } => self.pause_courier(who, held)?,
            Pause::Handler { held } => self.pause_handler(who, held)?,
            Pause::Brief(stop) => self.pause_briefly(who, stop)?,
            Pause::Anywhere => self.pause_anywhere(who)?,
        };
        let kind = match met {
            Met::AsPlanned => pause.name(),
            Met::NotTakenOver => "not-taken-over",
            Met::NotReached => {
                self.crew.tell(who, &Order::Disarm);
                self.pause_anywhere(who)?;
                Pause::Anywhere.name()
            }
        };
        self.grant();
        Ok(kind)
    }

    fn pause_courier(&mut self, who: usize, held: bool) -> Result<Met> {
        let Some(message) = self.reach(who, Stop::Sent) else { return Ok(Met::NotReached) };
        self.freeze(who)?;
        self.meanwhile(who)?;
        let other = self.worker(Some(who));
        let is_taken_over = if held {
            self.crew.tell(other, &Order::Arm(Stop::Sending, Some(message)));
            self.crew.wait_for(self.takeover_max(), |event| event.is_at(other, Stop::Sending)).is_some()
        } else {
            self.await_rows(|rows| rows.is_sent(&message))?
        };
        self.wake(who, other)?;
        Ok(if is_taken_over { Met::AsPlanned } else { Met::NotTakenOver })
    }

    fn pause_handler(&mut self, who: usize, held: bool) -> Result<Met> {
        if self.reach(who, Stop::ClaimedInbox).is_none() {
            return Ok(Met::NotReached);
        }
        // It goes on until it waits for the lock that is taken away from it here: its handlers run when it wakes up.
        self.rows.sight().lock(Base::Ledger)?;
        self.crew.tell(who, &Order::Go);
        self.crew.linger(QUEUEING);
        self.rows.sight().lock_one_writer_of(Base::Orders)?;
        self.crew.pause(who)?;
        let held_then = self.rows.leases()?;
        self.rows.sight().unlock()?;
        self.crew.linger(SETTLING);
        let leases = latest(self.rows.leases()?.into_iter().filter(|lease| held_then.contains(lease)));
        self.meanwhile(who)?;
        let other = self.worker(Some(who));
        let is_taken_over = if held {
            self.hold_claim(other, &leases)?
        } else {
            self.await_rows(|rows| rows.is_taken_over(&leases, 2))?
        };
        self.wake(who, other)?;
        Ok(if is_taken_over { Met::AsPlanned } else { Met::NotTakenOver })
    }

    /// Stops a worker right after it has claimed one of those rows.
    fn hold_claim(&mut self, other: usize, leases: &[Held]) -> Result<bool> {
        let until = now() + self.takeover_max();
        loop {
            self.crew.tell(other, &Order::Arm(Stop::ClaimedInbox, None));
            let left = until.saturating_duration_since(now());
            if self.crew.wait_for(left, |event| event.is_at(other, Stop::ClaimedInbox)).is_none() {
                return Ok(false);
            }
            if self.rows.is_taken_over(leases, 1)? {
                return Ok(true);
            }
            self.crew.tell(other, &Order::Go);
        }
    }

    fn pause_briefly(&mut self, who: usize, stop: Stop) -> Result<Met> {
        if self.reach(who, stop).is_none() {
            return Ok(Met::NotReached);
        }
        self.freeze(who)?;
        self.outlast_lease();
        self.wake(who, PRODUCER)?;
        Ok(Met::AsPlanned)
    }

    fn pause_anywhere(&mut self, who: usize) -> Result<Met> {
        self.grant();
        let lead = self.millis(1..40);
        self.crew.linger(lead);
        self.freeze(who)?;
        self.outlast_lease();
        self.crew.resume(who)?;
        Ok(Met::AsPlanned)
    }

    /// Stops a worker that holds no write lock.
    fn freeze(&mut self, who: usize) -> Result<()> {
        for base in Base::BOTH {
            self.rows.sight().lock_one_writer_of(base)?;
        }
        self.crew.pause(who)?;
        self.rows.sight().unlock()
    }

    fn takeover_max(&self) -> Duration {
        2 * self.lease + TAKEOVER
    }

    fn outlast_lease(&mut self) {
        let lease = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        let span = self.millis(lease * 5 / 4..lease * 9 / 4);
        self.crew.linger(span);
    }

    /// The others are not spared while one is paused.
    fn meanwhile(&mut self, paused: usize) -> Result<()> {
        let until = now() + BEFORE_TAKEOVER;
        for _ in 0..KILLS_MEANWHILE {
            if now() >= until || !self.kill_next(Some(paused))? {
                break;
            }
        }
        self.crew.linger(until.saturating_duration_since(now()));
        Ok(())
    }

    fn await_rows(&mut self, mut are_so: impl FnMut(&mut Rows) -> Result<bool>) -> Result<bool> {
        let until = now() + self.takeover_max();
        while !are_so(&mut self.rows)? {
            if now() >= until {
                return Ok(false);
            }
            self.crew.linger(Duration::from_millis(20));
        }
        Ok(true)
    }

    /// Wakes a worker; lets the one go that waited until its settle was refused.
    fn wake(&mut self, who: usize, other: usize) -> Result<()> {
        self.crew.resume(who)?;
        self.crew.tell(who, &Order::Go);
        self.crew.wait_for(REFUSAL_MAX, |event| event.is_refusal_of(who));
        self.crew.tell(other, &Order::Disarm);
        self.crew.tell(other, &Order::Go);
        Ok(())
    }
}
