//! A dialect is a value: every statement of one database, in full. There is no default dialect to fall back on.

use std::sync::Arc;

use crate::queue::Queue;
use crate::sql::TableNames;

/// The statements of one database. `{t}` stands for the queue's table; the tables beside it are named after it.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// The tables and indexes, for [`TableNames`] as `{outbox}` and `{inbox}`.
    pub(crate) schema: &'static str,
    /// The number of that schema.
    pub(crate) schema_version: i64,
    pub(crate) schema_read: &'static str,
    /// Takes maintenance for an interval: one row changed means it is ours.
    pub(crate) maintenance_take: &'static str,
    /// `{fence}`: the row is still held under the lease that is being settled.
    pub(crate) fence: &'static str,
    /// `{message}`: the columns of a message, in the order they are read in.
    pub(crate) message: &'static str,
    /// `{record}`: those and the columns of its work.
    pub(crate) record: &'static str,
    /// What both queues do.
    pub(crate) queue: Texts,
    pub(crate) outbox: Identity,
    pub(crate) inbox: Identity,
    pub(crate) outbox_insert: &'static str,
    pub(crate) inbox_insert: &'static str,
    pub(crate) inbox_accept: &'static str,
    pub(crate) inbox_see: &'static str,
    pub(crate) inbox_touch: &'static str,
    pub(crate) inbox_content: &'static str,
    /// Rows that are neither in line nor finished; only the inbox has such.
    pub(crate) inbox_count: &'static str,
    pub(crate) outbox_by_message: &'static str,
}

/// What the rows of a queue are known by.
#[derive(Debug)]
pub(crate) struct Identity {
    /// `{identity}`: four columns.
    pub(crate) columns: &'static str,
    /// `{key}`: one row.
    pub(crate) key: &'static str,
    /// `{party}`: the other service.
    pub(crate) party: &'static str,
}

macro_rules! queue_texts {
    ($($name:ident),* $(,)?) => {
        /// What both queues do.
        #[derive(Debug)]
        pub(crate) struct Texts {
            $(pub(crate) $name: &'static str,)*
        }

        /// The same, told for one of them.
        #[derive(Debug)]
        pub(crate) struct QueueStatements {
            $(pub(crate) $name: Arc<str>,)*
        }

        impl Renderer<'_> {
            fn all(&self, texts: &Texts) -> QueueStatements {
                QueueStatements { $($name: self.one(texts.$name),)* }
            }
        }
    };
}

queue_texts! {
    claim_select, claim_line, claim_one, claim_next, ack, extend, held, load_lease, load_over, load_expired, load_key,
    list,
    list_finished, save, purge_failures, purge, failure_add, failure_trim, failure_list, count, count_waiting, oldest,
}

/// A dialect's statements with the tables' names in them: made once, when a store is opened.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) schema: String,
    pub(crate) schema_version: i64,
    pub(crate) schema_read: Arc<str>,
    pub(crate) maintenance_take: Arc<str>,
    pub(crate) outbox: QueueStatements,
    pub(crate) inbox: QueueStatements,
    pub(crate) outbox_insert: Arc<str>,
    pub(crate) inbox_insert: Arc<str>,
    pub(crate) inbox_accept: Arc<str>,
    pub(crate) inbox_see: Arc<str>,
    pub(crate) inbox_touch: Arc<str>,
    pub(crate) inbox_content: Arc<str>,
    pub(crate) inbox_count: Arc<str>,
    pub(crate) outbox_by_message: Arc<str>,
}

impl Statements {
    /// `fence` is the dialect's own, except in a test that shows what happens without one.
    pub(crate) fn new(dialect: &Dialect, tables: &TableNames, fence: &str) -> Self {
        let outbox = Renderer { dialect, table: tables.of(Queue::Outbox), identity: &dialect.outbox, fence };
        let inbox = Renderer { dialect, table: tables.of(Queue::Inbox), identity: &dialect.inbox, fence };
        Self {
            schema: dialect.schema.replace("{outbox}", outbox.table).replace("{inbox}", inbox.table),
            schema_version: dialect.schema_version,
            schema_read: dialect.schema_read.into(),
            maintenance_take: dialect.maintenance_take.into(),
            outbox: outbox.all(&dialect.queue),
            inbox: inbox.all(&dialect.queue),
            outbox_insert: outbox.one(dialect.outbox_insert),
            inbox_insert: inbox.one(dialect.inbox_insert),
            inbox_accept: inbox.one(dialect.inbox_accept),
            inbox_see: inbox.one(dialect.inbox_see),
            inbox_touch: inbox.one(dialect.inbox_touch),
            inbox_content: inbox.one(dialect.inbox_content),
            inbox_count: inbox.one(dialect.inbox_count),
            outbox_by_message: outbox.one(dialect.outbox_by_message),
        }
    }

    pub(crate) fn of(&self, queue: Queue) -> &QueueStatements {
        match queue {
            Queue::Outbox => &self.outbox,
            Queue::Inbox => &self.inbox,
        }
    }
}

struct Renderer<'a> {
    dialect: &'a Dialect,
    table: &'a str,
    identity: &'a Identity,
    fence: &'a str,
}

impl Renderer<'_> {
    fn one(&self, text: &str) -> Arc<str> {
        text.replace("{record}", self.dialect.record)
            .replace("{message}", self.dialect.message)
            .replace("{identity}", self.identity.columns)
            .replace("{key}", self.identity.key)
            .replace("{party}", self.identity.party)
            .replace("{fence}", self.fence)
            .replace("{t}", self.table)
            .into()
    }
}
