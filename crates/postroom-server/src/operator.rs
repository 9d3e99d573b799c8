//! Operations on many messages, for the command line and the admin page, in steps and with counts.

use std::time::Duration;

use postroom::clock::Clock;
use postroom::operator::{Failed, Filter, Operator, Revival};
use postroom::queue::{State, WorkQueue};

/// The rows in one transaction; workers run in between.
const STEP: usize = 1000;

/// The result, or the result of a dry run.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Count {
    pub(crate) revived: u64,
    /// They have expired, or would expire before they are due.
    pub(crate) still_expired: u64,
    /// They changed in the meantime.
    pub(crate) changed: u64,
}

impl Count {
    pub(crate) fn add(&mut self, more: Self) {
        self.revived += more.revived;
        self.still_expired += more.still_expired;
        self.changed += more.changed;
    }
}

/// Requeues dead letters, or counts them in a dry run.
pub(crate) struct Reviving<'a> {
    pub(crate) queue: &'a WorkQueue,
    pub(crate) clock: &'a Clock,
    pub(crate) revival: Revival,
    pub(crate) dry_run: bool,
    /// The most messages.
    pub(crate) most: u64,
}

impl Reviving<'_> {
    /// Works in steps, so that rows that cannot be requeued do not hide those behind them.
    pub(crate) async fn those(&self, filter: &Filter, is_meant: impl Fn(&Failed) -> bool) -> postroom::Result<Count> {
        let (mut count, mut after) = (Count::default(), None);
        loop {
            let filter = after.into_iter().fold(filter.clone(), Filter::after);
            let page = self.queue.failed(filter.clone().limit(STEP)).await?;
            let Some(last) = page.last().map(|failed| failed.seq) else { return Ok(count) };
            let left = usize::try_from(self.most.saturating_sub(count.revived)).unwrap_or(usize::MAX);
            let mut meant: Vec<_> = page.iter().filter(|failed| is_meant(failed)).collect();
            // Some of these rows may stay dead; then continue behind the last of them.
            let next = meant.get(left).map(|failed| failed.seq);
            meant.truncate(left);
            count.add(self.step(&meant, count.revived).await?);
            after = next.map_or(Some(last), |next| Some(next - 1));
            if count.revived >= self.most {
                return Ok(count);
            }
        }
    }

    async fn step(&self, meant: &[&Failed], before: u64) -> postroom::Result<Count> {
        if meant.is_empty() {
            return Ok(Count::default());
        }
        let revival = self.revival.after(self.revival.delay_of(before));
        let expected = self.would_go(revival, meant);
        let revived = if self.dry_run { expected } else { self.queue.revive(those(meant), revival).await? };
        let still_expired = meant.len() as u64 - expected.max(revived);
        Ok(Count { revived, still_expired, changed: expected.saturating_sub(revived) })
    }

    fn would_go(&self, revival: Revival, meant: &[&Failed]) -> u64 {
        let now = self.clock.now();
        meant.iter().fold(0, |nth, failed| nth + u64::from(revival.takes(failed.expires_at, nth, now)))
    }
}

/// These rows, without dismissed ones unless the filter asks for them.
fn those(meant: &[&Failed]) -> Filter {
    let only = Filter::all().only(meant.iter().map(|failed| failed.seq)).limit(meant.len());
    match meant.first().map(|failed| failed.state) {
        Some(State::Dismissed) => only.state(State::Dismissed),
        _ => only,
    }
}

/// Dismisses dead letters, or counts them in a dry run.
pub(crate) struct Dismissing<'a> {
    pub(crate) queue: &'a WorkQueue,
    /// `None` in a dry run.
    pub(crate) dismissal: Option<Operator>,
    /// The most messages.
    pub(crate) most: u64,
}

/// The number of dismissed messages.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Dismissed {
    pub(crate) dismissed: u64,
    /// They changed in the meantime and are no longer dead letters.
    pub(crate) changed: u64,
}

impl Dismissed {
    pub(crate) fn add(&mut self, more: Self) {
        self.dismissed += more.dismissed;
        self.changed += more.changed;
    }
}

impl Dismissing<'_> {
    pub(crate) async fn those(
        &self,
        filter: &Filter,
        is_meant: impl Fn(&Failed) -> bool,
    ) -> postroom::Result<Dismissed> {
        let (mut count, mut after) = (Dismissed::default(), None);
        while count.dismissed < self.most {
            let filter = after.into_iter().fold(filter.clone(), Filter::after);
            let page = self.queue.failed(filter.limit(STEP)).await?;
            let Some(last) = page.last().map(|failed| failed.seq) else { break };
            after = Some(last);
            let left = usize::try_from(self.most.saturating_sub(count.dismissed)).unwrap_or(usize::MAX);
            let meant: Vec<_> = page.iter().filter(|failed| is_meant(failed)).take(left).collect();
            count.add(self.step(&meant).await?);
        }
        Ok(count)
    }

    async fn step(&self, meant: &[&Failed]) -> postroom::Result<Dismissed> {
        let expected = meant.len() as u64;
        let dismissed = match &self.dismissal {
            Some(dismissal) if expected > 0 => self.queue.dismiss(those(meant), dismissal.clone()).await?,
            _ => expected,
        };
        Ok(Dismissed { dismissed, changed: expected.saturating_sub(dismissed) })
    }
}

/// Expires or deletes all matching messages.
#[derive(Clone, Copy)]
pub(crate) enum Ending {
    /// Ready messages past their time to live expire.
    Expire,
    /// Done messages older than this are deleted.
    Purge(Duration),
}

impl Ending {
    pub(crate) async fn all(self, queue: &WorkQueue) -> postroom::Result<u64> {
        let mut total = 0;
        loop {
            let rows = match self {
                Self::Expire => queue.expire(STEP).await?,
                Self::Purge(older_than) => queue.purge(older_than, STEP).await?,
            };
            total += rows;
            if rows < STEP as u64 {
                return Ok(total);
            }
        }
    }

    /// Counts the messages, up to `limit`.
    pub(crate) async fn count(self, queue: &WorkQueue, limit: usize) -> postroom::Result<u64> {
        match self {
            Self::Expire => queue.overdue(limit).await,
            Self::Purge(older_than) => queue.purgeable(older_than, limit).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use postroom::clock::{ManualClock, Timestamp};
    use postroom::message::OwnerToken;
    use postroom::store::MemoryStore;
    use postroom::{NewMessage, Outbox};

    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    /// Makes messages dead; those with a time to live are past it.
    async fn given_up(lives: &[Option<Duration>]) -> (Outbox, Clock) {
        let clock = ManualClock::new(Timestamp::from_micros(1_771_070_400_000_000));
        let outbox = Outbox::new(MemoryStore::with_clock(Clock::Manual(clock.clone())));
        for ttl in lives {
            let message = ttl.iter().fold(NewMessage::new("a", "{}"), |message, ttl| message.expires_after(*ttl));
            outbox.enqueue(message).await.unwrap();
        }
        let claims = outbox.queue().claim(OwnerToken::new(), LEASE, lives.len()).await.unwrap().claimed;
        let _ = outbox.queue().fail(claims.into_iter().map(|claimed| claimed.lease), "x").await.unwrap();
        clock.advance(LEASE);
        (outbox, Clock::Manual(clock))
    }

    async fn revive(outbox: &Outbox, clock: &Clock, most: u64, dry_run: bool) -> Count {
        let (queue, revival) = (outbox.queue(), Revival::at_once());
        let reviving = Reviving { queue, clock, revival, dry_run, most };
        reviving.those(&Filter::all(), |_| true).await.unwrap()
    }

    #[tokio::test]
    async fn those_whose_time_is_over_do_not_hide_the_ones_behind_them() {
        let (outbox, clock) = given_up(&[Some(LEASE), None, Some(LEASE), None, None]).await;
        for dry_run in [true, false] {
            let count = revive(&outbox, &clock, 2, dry_run).await;
            assert_eq!(count, Count { revived: 2, still_expired: 2, changed: 0 });
        }
        assert_eq!(revive(&outbox, &clock, 2, false).await.revived, 1, "the last of them was not looked at before");
    }

    #[tokio::test]
    async fn as_many_are_dismissed_as_were_counted_and_they_come_back_if_they_are_asked_for() {
        let messages = STEP + 5;
        let (outbox, clock) = given_up(&vec![None; messages]).await;
        let queue = outbox.queue();
        let dismissal = Operator::new("ada").and_then(|ada| ada.because("obsolete")).unwrap();
        for dismissal in [None, Some(dismissal)] {
            let dismissing = Dismissing { queue, dismissal, most: messages as u64 - 2 };
            let count = dismissing.those(&Filter::all(), |_| true).await.unwrap();
            assert_eq!(count, Dismissed { dismissed: messages as u64 - 2, changed: 0 });
        }
        let stats = queue.stats().await.unwrap();
        assert_eq!((stats.dead, stats.dismissed), (2, messages as u64 - 2));
        assert_eq!(revive(&outbox, &clock, u64::MAX, false).await.revived, 2, "dismissed messages were not meant");
        let reviving = Reviving { queue, clock: &clock, revival: Revival::at_once(), dry_run: false, most: u64::MAX };
        let count = reviving.those(&Filter::all().state(State::Dismissed), |_| true).await.unwrap();
        assert_eq!(count, Count { revived: messages as u64 - 2, ..Count::default() });
    }

    #[tokio::test]
    async fn more_than_fit_into_one_step_are_all_revived() {
        let messages = 2 * STEP + 1;
        let (outbox, clock) = given_up(&vec![None; messages]).await;
        let count = revive(&outbox, &clock, u64::MAX, false).await;
        assert_eq!(count, Count { revived: messages as u64, ..Count::default() });
        assert_eq!(outbox.queue().stats().await.unwrap().dead, 0);
    }
}
