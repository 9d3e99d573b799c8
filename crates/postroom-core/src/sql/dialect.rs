//! A dialect is a value: every statement of one database, in full. There is no default dialect to fall back on.

use crate::queue::Queue;
use crate::sql::TableNames;
use crate::sql::purge::{PurgeTexts, Purges};
use crate::sql::questions::{QuestionStatements, QuestionTexts};
use crate::sql::text::{Places, SqlTemplate};

/// The statements of one database. `{t}` stands for the queue's table; the tables beside it are named after it. `{n}`
/// is the table without its schema, `{s}` the schema with its dot, where there is one.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// How values are marked.
    pub(crate) places: Places,
    /// How many rows travel at once.
    pub(crate) batch: Batch,
    /// The tables and indexes, for [`TableNames`] as `{outbox}` and `{inbox}`.
    pub(crate) schema: &'static str,
    /// `{each}`: what is there once for each queue.
    pub(crate) schema_each: &'static str,
    /// `{create_schema}`: what makes `{schema}`, where it is named.
    pub(crate) create_schema: &'static str,
    /// What undoes all of it, where tables are made to be thrown away.
    pub(crate) schema_drop: &'static str,
    /// The number of that schema.
    pub(crate) schema_version: i64,
    pub(crate) schema_read: &'static str,
    /// Takes maintenance for an interval: one row changed means it is ours.
    pub(crate) maintenance_take: &'static str,
    pub(crate) fence: Fence,
    /// `{message}`: the columns of a message, in the order they are read in.
    pub(crate) message: &'static str,
    /// `{record}`: those and the columns of its work; `{bare}` the same with an empty payload.
    pub(crate) record: &'static str,
    /// `{brief}`: the columns of a message that ended, without what it holds.
    pub(crate) brief: &'static str,
    /// What both queues do.
    pub(crate) queue: QueueSql,
    /// How old rows are deleted.
    pub(crate) purge: PurgeTexts,
    /// What operators ask.
    pub(crate) questions: QuestionTexts,
    pub(crate) outbox: Identity,
    pub(crate) inbox: Identity,
    pub(crate) outbox_insert: &'static str,
    pub(crate) outbox_insert_batch: &'static str,
    pub(crate) inbox_insert: &'static str,
    pub(crate) inbox_accept: &'static str,
    /// What follows `inbox_accept` when the row was there, where one statement cannot say it all.
    pub(crate) inbox_accept_seen: &'static str,
    /// A row that arrives in a receiver's transaction and is held there: whether no twin is in one, and its number.
    pub(crate) inbox_arrive: &'static str,
    /// What comes before it, where an insert would wait for a twin.
    pub(crate) inbox_arrive_look: &'static str,
    /// What tells the number, where an insert does not.
    pub(crate) inbox_arrive_seq: &'static str,
    /// A row that was handled in the transaction it arrives in, where nobody else can write meanwhile.
    pub(crate) inbox_handled: &'static str,
    pub(crate) inbox_see: &'static str,
    pub(crate) inbox_touch: &'static str,
    pub(crate) inbox_content: &'static str,
    /// Counts an attempt that begins outside the queue.
    pub(crate) inbox_begin: &'static str,
    /// Rows that are neither in line nor finished; only the inbox has such.
    pub(crate) inbox_count: &'static str,
    /// All rows of the inbox: counted up to a hundred thousand, beyond that as many as the database thinks.
    pub(crate) inbox_size: &'static str,
    pub(crate) outbox_by_message: &'static str,
    /// Puts a handler's mark on a message; changes no row when it is there.
    pub(crate) mark_put: &'static str,
    pub(crate) mark_find: &'static str,
    /// Takes back a mark that was put at that time.
    pub(crate) mark_remove: &'static str,
    pub(crate) marks_purge: &'static str,
    /// Whether there may be something to claim: in the outbox, in the inbox; and whether nothing can be written.
    pub(crate) idle_poll: &'static str,
}

/// The row is still held under the lease that is being settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence {
    /// `{fence}`: the one row of a statement.
    pub(crate) one: &'static str,
    /// `{fence_each}`: each row of a batch.
    pub(crate) each: &'static str,
}

/// `{error_chars}`: so much of an error's text tells what it is about.
pub(crate) const ERROR_CHARS: usize = 200;

/// In place of a statement that the dialect's way of batching never runs.
pub(crate) const UNUSED: &str = "";

/// How many rows travel at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Batch {
    /// One statement, prepared once and run for each row: the database is in the same process.
    EachRow,
    /// Columns as arrays; a claim is one statement.
    Arrays,
    /// Several rows in one text.
    Rows,
    /// Several rows in one text, answered with those that are new; leases as JSON. A claim is one statement.
    Lists,
}

impl Batch {
    /// Whether a claim is one statement.
    pub(crate) fn claims_at_once(self) -> bool {
        matches!(self, Self::Arrays | Self::Lists)
    }
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
    /// `{here}`: whether a message is handled here, and not sent elsewhere.
    pub(crate) here: &'static str,
    /// `{destination}`: the service it is sent to.
    pub(crate) destination: &'static str,
}

macro_rules! queue_texts {
    ($($name:ident),* $(,)?) => {
        /// What both queues do.
        #[derive(Debug)]
        pub(crate) struct QueueSql {
            $(pub(crate) $name: &'static str,)*
        }

        /// The same, told for one of them.
        #[derive(Debug)]
        pub(crate) struct QueueStatements {
            $(pub(crate) $name: SqlTemplate,)*
        }

        #[cfg(feature = "testing")]
        impl QueueStatements {
            /// Each text by its name: for tests that look at plans.
            #[cfg_attr(
                not(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13")),
                allow(dead_code)
            )]
            pub(crate) fn named(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), self.$name.sql().to_string()),)*]
            }
        }

        impl Renderer<'_> {
            fn all(&self, texts: &QueueSql) -> QueueStatements {
                QueueStatements { $($name: self.one(texts.$name),)* }
            }
        }
    };
}

queue_texts! {
    claim_look, claim_select, claim_line, claim_one, claim_next, topics_select, topics_line, topics_next,
    suspects_select, suspects_line, suspects_next, ack, ack_batch, extend, extend_batch, held, load_lease, load_leases,
    load_claimed, load_over, load_expired, load_key, find_key, list, list_done, list_dead, list_expired, list_dismissed,
    list_rows, save, save_batch, brief_done, brief_dead, brief_expired, brief_dismissed, brief_rows, put_back, dismiss,
    expire_dead, nth_newest_dead, nth_newest_expired, groups_dead, groups_expired, count_overdue, count_purgeable,
    failure_add, failure_add_batch, failure_trim, failure_trim_batch, failure_list, hold_remove, hold_add, hold_list,
    audit_more, audit_add, audit_list, count_to, count_of, count, count_waiting, oldest, ahead_leased, ahead_ready,
    ahead_set,
}

/// A dialect's statements with the tables' names in them: made once, when a store is opened.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) schema: String,
    #[cfg_attr(
        not(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13")),
        allow(dead_code)
    )]
    pub(crate) schema_drop: String,
    pub(crate) schema_version: i64,
    pub(crate) schema_read: SqlTemplate,
    pub(crate) maintenance_take: SqlTemplate,
    pub(crate) outbox: QueueStatements,
    pub(crate) inbox: QueueStatements,
    pub(crate) outbox_purges: Purges,
    pub(crate) inbox_purges: Purges,
    pub(crate) outbox_questions: QuestionStatements,
    pub(crate) inbox_questions: QuestionStatements,
    pub(crate) outbox_insert: SqlTemplate,
    pub(crate) outbox_insert_batch: SqlTemplate,
    pub(crate) inbox_insert: SqlTemplate,
    pub(crate) inbox_accept: SqlTemplate,
    pub(crate) inbox_accept_seen: Option<SqlTemplate>,
    pub(crate) inbox_arrive: SqlTemplate,
    pub(crate) inbox_arrive_look: Option<SqlTemplate>,
    pub(crate) inbox_arrive_seq: Option<SqlTemplate>,
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
    pub(crate) inbox_handled: SqlTemplate,
    pub(crate) inbox_see: SqlTemplate,
    pub(crate) inbox_touch: SqlTemplate,
    pub(crate) inbox_content: SqlTemplate,
    pub(crate) inbox_begin: SqlTemplate,
    pub(crate) inbox_count: SqlTemplate,
    pub(crate) inbox_size: SqlTemplate,
    pub(crate) outbox_by_message: SqlTemplate,
    pub(crate) mark_put: SqlTemplate,
    pub(crate) mark_find: SqlTemplate,
    pub(crate) mark_remove: SqlTemplate,
    pub(crate) marks_purge: SqlTemplate,
    #[cfg_attr(
        not(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13")),
        allow(dead_code)
    )]
    pub(crate) idle_poll: SqlTemplate,
}

impl Statements {
    /// `fence` is the dialect's own, except in a test that shows what happens without one.
    pub(crate) fn new(dialect: &Dialect, tables: &TableNames, fence: Fence) -> Self {
        let of = |queue, identity| Renderer {
            dialect,
            schema: tables.prefix(),
            name: tables.of(queue),
            table: format!("{}{}", tables.prefix(), tables.of(queue)),
            identity,
            fence,
        };
        let (outbox, inbox) = (of(Queue::Outbox, &dialect.outbox), of(Queue::Inbox, &dialect.inbox));
        Self {
            schema: schema(dialect, tables, [&outbox, &inbox]),
            schema_drop: named(dialect.schema_drop, tables),
            schema_version: dialect.schema_version,
            schema_read: outbox.one(dialect.schema_read),
            maintenance_take: outbox.one(dialect.maintenance_take),
            outbox: outbox.all(&dialect.queue),
            inbox: inbox.all(&dialect.queue),
            outbox_purges: Purges::new(&dialect.purge, Queue::Outbox, |text| outbox.one(text)),
            inbox_purges: Purges::new(&dialect.purge, Queue::Inbox, |text| inbox.one(text)),
            outbox_questions: QuestionStatements::new(&dialect.questions, |text| outbox.one(text)),
            inbox_questions: QuestionStatements::new(&dialect.questions, |text| inbox.one(text)),
            outbox_insert: outbox.one(dialect.outbox_insert),
            outbox_insert_batch: outbox.one(dialect.outbox_insert_batch),
            inbox_insert: inbox.one(dialect.inbox_insert),
            inbox_accept: inbox.one(dialect.inbox_accept),
            inbox_accept_seen: inbox.used(dialect.inbox_accept_seen),
            inbox_arrive: inbox.one(dialect.inbox_arrive),
            inbox_arrive_look: inbox.used(dialect.inbox_arrive_look),
            inbox_arrive_seq: inbox.used(dialect.inbox_arrive_seq),
            inbox_handled: inbox.one(dialect.inbox_handled),
            inbox_see: inbox.one(dialect.inbox_see),
            inbox_touch: inbox.one(dialect.inbox_touch),
            inbox_content: inbox.one(dialect.inbox_content),
            inbox_begin: inbox.one(dialect.inbox_begin),
            inbox_count: inbox.one(dialect.inbox_count),
            inbox_size: inbox.one(dialect.inbox_size),
            outbox_by_message: outbox.one(dialect.outbox_by_message),
            mark_put: inbox.one(dialect.mark_put),
            mark_find: inbox.one(dialect.mark_find),
            mark_remove: inbox.one(dialect.mark_remove),
            marks_purge: inbox.one(dialect.marks_purge),
            idle_poll: SqlTemplate::new(
                dialect.places,
                &dialect.idle_poll.replace("{outbox}", &outbox.table).replace("{inbox}", &inbox.table),
            ),
        }
    }

    pub(crate) fn of(&self, queue: Queue) -> &QueueStatements {
        match queue {
            Queue::Outbox => &self.outbox,
            Queue::Inbox => &self.inbox,
        }
    }

    pub(crate) fn questions(&self, queue: Queue) -> &QuestionStatements {
        match queue {
            Queue::Outbox => &self.outbox_questions,
            Queue::Inbox => &self.inbox_questions,
        }
    }

    pub(crate) fn purges(&self, queue: Queue) -> &Purges {
        match queue {
            Queue::Outbox => &self.outbox_purges,
            Queue::Inbox => &self.inbox_purges,
        }
    }
}

fn schema(dialect: &Dialect, tables: &TableNames, queues: [&Renderer<'_>; 2]) -> String {
    let each = queues.map(|queue| queue.each(dialect.schema_each)).concat();
    let create_schema =
        tables.schema().map(|schema| dialect.create_schema.replace("{schema}", schema)).unwrap_or_default();
    let text = dialect.schema.replace("{create_schema}\n\n", &create_schema).replace("{each}\n", &each);
    named(&text, tables)
        .replace("{channel}", &tables.channel())
        .replace("{each_byte}", &(0..=u8::MAX).map(|byte| format!("{byte:02x}")).collect::<String>())
        .replace("{now_ms}", "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)")
}

/// A schema's text with the names in it.
fn named(text: &str, tables: &TableNames) -> String {
    let prefix = tables.prefix();
    let (outbox, inbox) = (tables.of(Queue::Outbox), tables.of(Queue::Inbox));
    text.replace("{outbox_name}", outbox)
        .replace("{inbox_name}", inbox)
        .replace("{outbox}", &format!("{prefix}{outbox}"))
        .replace("{inbox}", &format!("{prefix}{inbox}"))
        .replace("{schema}", tables.schema().unwrap_or_default())
        .replace("{s}", &prefix)
}

struct Renderer<'a> {
    dialect: &'a Dialect,
    schema: String,
    name: &'a str,
    table: String,
    identity: &'a Identity,
    fence: Fence,
}

impl Renderer<'_> {
    fn used(&self, text: &str) -> Option<SqlTemplate> {
        (text != UNUSED).then(|| self.one(text))
    }

    fn each(&self, schema: &str) -> String {
        // Columns are told as those of a row that was written, values as they are.
        let is_column = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let inserted = self
            .identity
            .columns
            .split(", ")
            .map(|word| if is_column(&word) { format!("inserted.{word}") } else { word.to_owned() });
        schema
            .replace("{inserted}", &inserted.collect::<Vec<_>>().join(", "))
            .replace("{here}", self.identity.here)
            .replace("{destination}", self.identity.destination)
            .replace("{t}", &self.table)
            .replace("{n}", self.name)
    }

    fn one(&self, text: &str) -> SqlTemplate {
        let bare = self.dialect.message.replace("topic, payload,", "topic, '' AS payload,");
        let text = text
            .replace("{bare}", &self.dialect.record.replace("{message}", &bare))
            .replace("{record}", self.dialect.record)
            .replace("{message}", self.dialect.message)
            .replace("{brief}", self.dialect.brief)
            .replace("{error_chars}", &ERROR_CHARS.to_string())
            .replace("{identity}", self.identity.columns)
            .replace("{key}", self.identity.key)
            .replace("{party}", self.identity.party)
            .replace("{here}", self.identity.here)
            .replace("{destination}", self.identity.destination)
            .replace("{fence}", self.fence.one)
            .replace("{fence_each}", self.fence.each)
            .replace("{t}", &self.table)
            .replace("{n}", self.name)
            .replace("{s}", &self.schema);
        SqlTemplate::new(self.dialect.places, &text)
    }
}
