//! The verbs, written once for every SQL database: pick the statement, bind, run, read. What a verb does to a row is
//! decided by [`Work`](crate::queue::Work); only the hot ones (insert, claim, ack, extend) are told in SQL alone.

mod batch;
mod claim;
mod failed;
mod floor;
mod inbox;
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
mod look;
mod marks;
mod numbers;
mod passed;
mod receive;
mod rows;
mod schema;
mod upkeep;

use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::message::NewMessage;
use crate::queue::{Lease, Queue, Settle, Settled, State, Verb};
use crate::sql::dialect::{Batch, Dialect, Fence, Statements};
use crate::sql::{Expects, Session, Statement, TableNames};
use crate::store::{FAILURES_KEPT, Filter, Record};
use floor::Floor;
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
pub(crate) use look::Asked;
use passed::Passed;
use rows::{int, read_record, row_count, text, uuid};

/// Everything the verbs need besides a connection.
#[derive(Debug)]
pub(crate) struct Verbs {
    pub(crate) statements: Statements,
    batch: Batch,
    pub(crate) tables: TableNames,
    /// Where the news of a death goes, in the transaction of that death.
    pub(crate) dead_letter_topic: Option<String>,
    floors: [Floor; 2],
    passed: Passed,
}

impl Verbs {
    pub(crate) fn new(dialect: &Dialect, tables: TableNames, dead_letter_topic: Option<String>, fence: Fence) -> Self {
        let statements = Statements::new(dialect, &tables, fence);
        let (batch, floors) = (dialect.batch, [Floor::new(), Floor::new()]);
        Self { statements, batch, tables, dead_letter_topic, floors, passed: Passed::default() }
    }

    fn floor(&self, queue: Queue) -> &Floor {
        match queue {
            Queue::Outbox => &self.floors[0],
            Queue::Inbox => &self.floors[1],
        }
    }

    pub(crate) fn insert(&self, message: &NewMessage, now: Timestamp) -> Statement {
        self.statements.outbox_insert.with(batch::row(message, now)).expecting(Expects::RowOrDuplicate)
    }

    pub(crate) fn ack(&self, queue: Queue, lease: &Lease, response: Option<&str>, now: Timestamp) -> Statement {
        let mut values = Self::fence(lease);
        values.extend([int(now.as_micros()), text(response)]);
        self.statements.of(queue).ack.with(values).expecting(Expects::RowOrLeaseLost)
    }

    /// Answers with a row if the lease still holds.
    pub(crate) fn held(&self, queue: Queue, lease: &Lease) -> Statement {
        self.statements.of(queue).held.with(Self::fence(lease))
    }

    pub(crate) async fn settle(
        &self,
        session: &mut impl Session,
        queue: Queue,
        settles: &[Settle],
        now: Timestamp,
    ) -> Result<Settled> {
        let mut settled = Settled::default();
        let mut acks = Vec::new();
        for settle in settles {
            if let Verb::Ack { response } = &settle.verb {
                acks.push((&settle.lease, response.as_deref()));
                continue;
            }
            // Acks travel together, after the others; one that was said first is still the first.
            if acks.iter().any(|(acked, _)| **acked == settle.lease) {
                settled.count(None);
                continue;
            }
            let load = self.statements.of(queue).load_lease.with(Self::fence(&settle.lease));
            let Some(mut record) = self.load(session, queue, &load).await?.pop() else {
                settled.count(self.settled_before(session, queue, &settle.lease).await?);
                continue;
            };
            let was = record.state();
            match settle.verb.clone() {
                Verb::Ack { .. } => {}
                Verb::Release => record.work.release(now),
                Verb::Fail { error } => record.work.fail(error, now),
                Verb::Abandon { delay, error, counted } => record.work.abandon(delay, error, counted, now),
            }
            if let Verb::Fail { error } | Verb::Abandon { error, .. } = &settle.verb {
                self.note_failure(session, queue, &record, &settle.lease, error.as_deref(), now).await?;
            }
            self.save(session, queue, &record, was, settle.lease.claim_no, now).await?;
            settled.count(Some(record.state()));
        }
        // Everybody locks rows in the same order: two who settle the same rows wait for each other only one way.
        acks.sort_unstable_by_key(|(lease, _)| lease.seq);
        let mut held = self.ack_many(session, queue, &acks, now).await?;
        if session.in_doubt() {
            held = 0;
            for (lease, _) in &acks {
                held += u64::from(self.acked_before(session, queue, lease).await?);
            }
        }
        (0..held).for_each(|_| settled.count(Some(State::Done)));
        (held..acks.len() as u64).for_each(|_| settled.count(None));
        Ok(settled)
    }

    /// Settles by one statement, outside any other transaction; none when there is more to it than acks.
    #[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
    pub(crate) async fn settle_alone(
        &self,
        session: &mut impl Session,
        queue: Queue,
        settles: &[Settle],
        now: Timestamp,
    ) -> Result<Option<Settled>> {
        let is_ack = |settle: &Settle| matches!(settle.verb, Verb::Ack { .. });
        let is_answered = |settle: &Settle| matches!(settle.verb, Verb::Ack { response: Some(_) });
        let goes_alone = self.batch == Batch::Lists && settles.len() > 1 && settles.iter().any(is_answered);
        if settles.len() > batch::LIST_MAX || goes_alone || !settles.iter().all(is_ack) {
            return Ok(None);
        }
        self.settle(session, queue, settles, now).await.map(Some)
    }

    /// Where a lease's row stands, if a try whose commit was not answered settled it: nobody claimed it since.
    async fn settled_before(&self, session: &mut impl Session, queue: Queue, lease: &Lease) -> Result<Option<State>> {
        if !session.in_doubt() {
            return Ok(None);
        }
        let found = self.list(session, queue, &Filter::one(lease.seq)).await?.pop();
        let ours = found.filter(|row| row.claim_no() == lease.claim_no && row.state() != State::Leased);
        Ok(ours.map(|row| row.state()))
    }

    /// Whether a lease's row is done, and by whom held the lease: what was given up or taken back since is not.
    pub(crate) async fn acked_before(&self, session: &mut impl Session, queue: Queue, lease: &Lease) -> Result<bool> {
        let found = self.list(session, queue, &Filter::one(lease.seq)).await?.pop();
        Ok(found.is_some_and(|row| {
            row.state() == State::Done && row.claim_no() == lease.claim_no && row.processed_by() == Some(lease.owner)
        }))
    }

    /// Whether the lease still holds; while another transaction changes the row, the question waits for it.
    #[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
    pub(crate) async fn is_held(&self, session: &mut impl Session, queue: Queue, lease: &Lease) -> Result<bool> {
        let load = self.statements.of(queue).load_lease.with(Self::fence(lease));
        Ok(!self.load(session, queue, &load).await?.is_empty())
    }

    async fn load(&self, session: &mut impl Session, queue: Queue, select: &Statement) -> Result<Vec<Record>> {
        session.query(select, |row| read_record(row, queue)).await
    }

    /// Writes a row's work columns back, if its claim number is still `claim_no`; a death is told in the same breath.
    async fn save(
        &self,
        session: &mut impl Session,
        queue: Queue,
        record: &Record,
        was: State,
        claim_no: i64,
        now: Timestamp,
    ) -> Result<()> {
        if record.state() == State::Ready {
            self.floor(queue).lower(record.visible_at());
            self.passed.lower(queue, record.visible_at());
        }
        let mut save = rows::save(record, claim_no);
        if self.batch == Batch::Lists {
            save.push(int(was.code()));
        }
        let saved = session.execute(&self.statements.of(queue).save.with(save)).await?;
        // A server that takes no notice of locks lets others change what was read.
        if saved.rows == 0 && self.batch == Batch::Lists {
            return Err(Error::new(ErrorKind::NotCommitted, "the row was changed by somebody else in the same moment"));
        }
        if let (1.., Some(topic)) = (saved.rows, &self.dead_letter_topic)
            && let Some(news) = record.obituary(queue, was, topic)
        {
            session.execute(&self.insert(&news, now)).await?;
        }
        Ok(())
    }

    async fn note_failure(
        &self,
        session: &mut impl Session,
        queue: Queue,
        record: &Record,
        lease: &Lease,
        error: Option<&str>,
        now: Timestamp,
    ) -> Result<()> {
        let statements = self.statements.of(queue);
        let values = vec![
            int(record.seq),
            int(now.as_micros()),
            int(i64::from(record.work.attempts)),
            uuid(Some(lease.owner.as_uuid())),
            text(error),
        ];
        session.execute(&statements.failure_add.with(values)).await?;
        // Each failure follows a claim: fewer claims than that, and there is nothing to trim.
        if record.work.claim_no > row_count(FAILURES_KEPT) {
            let values = vec![int(record.seq), int(row_count(FAILURES_KEPT))];
            session.execute(&statements.failure_trim.with(values)).await?;
        }
        Ok(())
    }
}
