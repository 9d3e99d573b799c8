//! What operators can do to messages, and what they can see of them.

use std::time::Duration;

use crate::mailbox::work_queue::{WorkQueue, at_least_one};
use crate::queue::{Limit, Place, Queue, Rule, Scope};
use crate::store::{
    Failed, FailedGroup, Failure, Filter, Hold, HoldChange, Operation, Operator, QueueStats, Record, Revival,
};
use crate::support::error::{Error, Result};
use crate::telemetry;

impl WorkQueue {
    /// Dismisses dead and expired messages that nobody needs any more, and returns how many. They no longer count as
    /// failed. They are kept for a while, with who dismissed them and why, and are then deleted
    /// ([`Retention`](crate::Retention)). While they are kept, the same message is a duplicate if it arrives again. The
    /// operator must give a reason. Messages in other states do not change. A message that was dismissed by mistake can
    /// be requeued ([`revive`](Self::revive)).
    ///
    /// ```
    /// # use postroom::Outbox;
    /// # use postroom::store::MemoryStore;
    /// use postroom::operator::{Filter, Operator};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let outbox = Outbox::new(MemoryStore::new());
    /// let obsolete = Filter::all().topic("order.placed").party("legacy-billing");
    /// let ada = Operator::new("ada")?.because("that service is gone")?;
    /// let dismissed = outbox.queue().dismiss(obsolete, ada).await?;
    /// # assert_eq!(dismissed, 0);
    /// # Ok::<(), postroom::Error>(()) }).unwrap();
    /// ```
    pub async fn dismiss(&self, filter: Filter, operator: Operator) -> Result<u64> {
        if operator.why().is_none() {
            return Err(Error::invalid("a dismissal needs a reason"));
        }
        let dismissed = self.change(Operation::Dismiss(filter, operator)).await?;
        telemetry::dismissed(self.named(), dismissed);
        Ok(dismissed)
    }

    /// Requeues dead and expired messages, as if they were new. Messages past their time to live need a new one:
    /// `revival` is that time to live, none, or a [`Revival`] with more options. Dismissed messages are requeued only
    /// if the filter asks for [`State::Dismissed`](crate::State::Dismissed).
    pub async fn revive(&self, filter: Filter, revival: impl Into<Revival>) -> Result<u64> {
        let revival = revival.into();
        revival.check()?;
        let revived = self.change(Operation::Revive(filter, revival)).await?;
        telemetry::revived(self.named(), revived);
        Ok(revived)
    }

    /// Puts done messages of the outbox back in the queue, because their receiver was restored from a backup.
    pub async fn redrive(&self, filter: Filter, ttl: Option<Duration>) -> Result<u64> {
        if self.queue == Queue::Inbox {
            return Err(Error::invalid("only messages of the outbox can be redriven"));
        }
        if ttl == Some(Duration::ZERO) {
            return Err(Error::invalid("the time to live of a redriven message must be longer than zero"));
        }
        let redriven = self.change(Operation::Redrive(filter, ttl.into())).await?;
        telemetry::revived(self.named(), redriven);
        Ok(redriven)
    }

    /// Pauses the queue or a part of it: its messages wait, and spend no attempt. Workers of all processes notice
    /// within a second. What is in progress ends as usual, and a lease that runs out meanwhile is found later. Returns
    /// false if it was paused already: then nothing changes, and the first pause stays.
    ///
    /// The pause is in the database, and lasts until it is [resumed](Self::resume).
    pub async fn pause(&self, scope: Scope, operator: Operator) -> Result<bool> {
        let operator = operator.about(&scope)?;
        self.rule(Operation::Pause(scope.clone(), operator), &scope).await
    }

    /// Lets a paused queue, or a part of it, go on. Returns false if it was not paused.
    pub async fn resume(&self, scope: Scope, operator: Operator) -> Result<bool> {
        let operator = operator.about(&scope)?;
        self.rule(Operation::Resume(scope.clone(), operator), &scope).await
    }

    /// Limits how many messages of a topic, a destination or a lane are in progress at once, and how many start in a
    /// time, over all workers of all processes. It takes the place of an earlier limit; [`Limit::none`] removes that.
    /// Workers notice within a second.
    ///
    /// Each attempt counts. A whole queue cannot be limited, and a lane has no rate.
    pub async fn limit(&self, scope: Scope, limit: Limit, operator: Operator) -> Result<()> {
        if scope == Scope::Queue {
            return Err(Error::invalid("a limit is for a topic, a destination or a lane, not for a whole queue"));
        }
        limit.check(&scope)?;
        let operator = operator.about(&format_args!("{scope}: {limit}"))?;
        self.rule(Operation::Limit(scope.clone(), limit, operator), &scope).await?;
        Ok(())
    }

    async fn rule(&self, operation: Operation, scope: &Scope) -> Result<bool> {
        if self.queue == Queue::Inbox && matches!(scope, Scope::Place(Place::Service(_))) {
            return Err(Error::invalid("messages of the inbox have no destination; name a topic"));
        }
        if scope.is_of_lanes() && !self.store.keeps_lanes() {
            return Err(Error::invalid("this database keeps no lanes; pause or limit a topic or a destination"));
        }
        let act = operation.act().as_str();
        let changed = self.change(operation).await? > 0;
        if changed {
            telemetry::ruled(self.named(), act, scope);
        }
        Ok(changed)
    }

    /// Returns what is paused or limited, and how many messages wait for it.
    pub async fn rules(&self) -> Result<Vec<Rule>> {
        self.store.rules(self.queue).await
    }

    /// Returns messages, in the order of their rows.
    pub async fn list(&self, filter: Filter) -> Result<Vec<Record>> {
        self.store.list(self.queue, filter).await
    }

    /// Returns the failures of a message, oldest first.
    pub async fn failures(&self, seq: i64) -> Result<Vec<Failure>> {
        self.store.failures(self.queue, seq).await
    }

    /// Returns dead letters without their content, in the order of their rows: dead and expired messages, or dismissed
    /// ones if the filter asks for [`State::Dismissed`](crate::State::Dismissed).
    pub async fn failed(&self, filter: Filter) -> Result<Vec<Failed>> {
        self.store.failed(self.queue, filter).await
    }

    /// Counts dead letters by topic, other service and the start of the error. It starts at the newest row and stops
    /// after `rows` dead or `rows` expired messages.
    pub async fn failed_groups(&self, rows: usize) -> Result<Vec<FailedGroup>> {
        self.store.failed_groups(self.queue, at_least_one(rows)?).await
    }

    /// Returns the places that are held because they failed, and how many messages wait for each. Workers store this in
    /// the database, so every process sees it.
    pub async fn holds(&self) -> Result<Vec<Hold>> {
        self.store.holds(self.queue).await
    }

    pub(crate) async fn hold(&self, change: HoldChange) -> Result<()> {
        self.store.hold(self.queue, change).await
    }

    /// Returns how many messages [`expire`](Self::expire) would expire, counted up to `limit`.
    pub async fn overdue(&self, limit: usize) -> Result<u64> {
        self.store.overdue(self.queue, at_least_one(limit)?).await
    }

    /// Returns how many messages [`purge`](Self::purge) would delete, counted up to `limit`.
    pub async fn purgeable(&self, retention: Duration, limit: usize) -> Result<u64> {
        self.store.purgeable(self.queue, retention, at_least_one(limit)?).await
    }

    /// Returns how many messages are in each state.
    pub async fn stats(&self) -> Result<QueueStats> {
        self.store.stats(self.queue).await
    }
}
