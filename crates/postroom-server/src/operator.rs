//! What operators do to many messages, from the command line and from the page: in steps, and counted.

use std::time::Duration;

use postroom::{Clock, Failed, Filter, Revival, WorkQueue};

/// So many rows in one transaction: workers go on in between.
const STEP: usize = 1000;

/// What was done, or would be.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Count {
    pub(crate) revived: u64,
    pub(crate) still_expired: u64,
    /// So many rows were looked at.
    pub(crate) looked_at: u64,
}

impl Count {
    pub(crate) fn add(&mut self, more: Self) {
        self.revived += more.revived;
        self.still_expired += more.still_expired;
        self.looked_at += more.looked_at;
    }
}

/// Puts messages back in line that were given up, or says how many would be.
pub(crate) struct Reviving<'a> {
    pub(crate) queue: &'a WorkQueue,
    pub(crate) clock: &'a Clock,
    pub(crate) revival: Revival,
    pub(crate) dry_run: bool,
    /// Not more than these.
    pub(crate) most: u64,
    /// Nor are more rows looked at.
    pub(crate) look_at_most: u64,
}

impl Reviving<'_> {
    /// Step by step: rows that cannot go back must not hide those behind them.
    pub(crate) async fn those(&self, filter: &Filter, is_meant: impl Fn(&Failed) -> bool) -> postroom::Result<Count> {
        let (mut count, mut after) = (Count::default(), None);
        loop {
            let filter = after.into_iter().fold(filter.clone(), Filter::after);
            let page = self.queue.failed(filter.clone().limit(STEP)).await?;
            let Some(last) = page.last().map(|failed| failed.seq) else { return Ok(count) };
            let left = usize::try_from(self.most.saturating_sub(count.revived)).unwrap_or(usize::MAX);
            let meant: Vec<_> = page.iter().filter(|failed| is_meant(failed)).take(left).collect();
            count.add(self.step(filter.up_to(last), &meant, count.revived).await?);
            count.looked_at += page.len() as u64;
            after = Some(last);
            if count.revived >= self.most || count.looked_at >= self.look_at_most {
                return Ok(count);
            }
        }
    }

    async fn step(&self, filter: Filter, meant: &[&Failed], before: u64) -> postroom::Result<Count> {
        if meant.is_empty() {
            return Ok(Count::default());
        }
        let revival = self.revival.after(self.revival.delay_of(before));
        let revived = if self.dry_run {
            self.would_go(revival, meant)
        } else {
            // With room for what is given up in between: it must not push others out of the step.
            let only = filter.only(meant.iter().map(|failed| failed.seq)).limit(2 * STEP);
            self.queue.revive(only, revival).await?
        };
        Ok(Count { revived, still_expired: (meant.len() as u64).saturating_sub(revived), looked_at: 0 })
    }

    fn would_go(&self, revival: Revival, meant: &[&Failed]) -> u64 {
        let (now, kind) = (self.clock.now(), self.queue.kind());
        meant.iter().fold(0, |nth, failed| nth + u64::from(revival.takes(kind, failed.expires_at, nth, now)))
    }
}

/// What ends messages, as many as there are.
#[derive(Clone, Copy)]
pub(crate) enum Ending {
    /// Waiting messages past their time expire.
    Expire,
    /// Done messages are deleted, so long afterwards.
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

    /// How many it would be; not counted beyond `limit`.
    pub(crate) async fn count(self, queue: &WorkQueue, limit: usize) -> postroom::Result<u64> {
        match self {
            Self::Expire => queue.overdue(limit).await,
            Self::Purge(older_than) => queue.purgeable(older_than, limit).await,
        }
    }
}
