//! A dialect is a value: the statements of one database, and the plans that differ from one to the next. What several
//! databases say in the same words is in [`shared`](super::shared).

use std::ops::Deref;

use crate::queue::{Queue, State};
use crate::sql::TableNames;
use crate::sql::plans::{Arrive, Claim, Extend, InsertMany, Lines, ManySql};
use crate::sql::purge::{PurgeTexts, Purges};
use crate::sql::questions::{QuestionSql, QuestionStatements};
use crate::sql::render::{Renderer, named, schema};
use crate::sql::shared;
use crate::sql::text::{Places, SqlTemplate};

/// The statements of one database. `{t}` stands for the queue's table; the tables beside it are named after it. `{n}`
/// is the table without its schema, `{s}` the schema with its dot, where there is one.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// How values are marked.
    pub(crate) places: Places,
    /// Whether the type of a value stands behind its number.
    pub(crate) casts: bool,
    /// The dialect's own words: `{name}`, and what it stands for.
    pub(crate) words: &'static [(&'static str, &'static str)],
    /// The tables and indexes, for [`TableNames`] as `{outbox}` and `{inbox}`.
    pub(crate) schema: &'static str,
    /// `{each}`: what is there once for each queue.
    pub(crate) schema_each: Option<&'static str>,
    /// `{create_schema}`: what makes `{schema}`, where it is named.
    pub(crate) create_schema: Option<&'static str>,
    /// What undoes all of it, where tables are made to be thrown away.
    pub(crate) schema_drop: Option<&'static str>,
    /// The number of that schema.
    pub(crate) schema_version: i64,
    pub(crate) fence: Fence,
    pub(crate) outbox: Identity,
    pub(crate) inbox: Identity,
    /// How messages are inserted, claimed and settled together.
    pub(crate) insert_many: InsertMany,
    pub(crate) claim: Claim,
    /// None: one after the other.
    pub(crate) many: Option<ManySql>,
    pub(crate) extend: Extend,
    /// Whether a row that was read can change before it is written, because the server takes no notice of locks.
    pub(crate) checks_saves: bool,
    /// What both queues do.
    pub(crate) queue: QueueSql,
    /// The same for each state that a row can be in: `{state}`.
    pub(crate) in_state: InStateSql,
    /// How old rows are deleted.
    pub(crate) purge: PurgeTexts,
    /// What operators ask.
    pub(crate) questions: QuestionSql,
    pub(crate) outbox_insert: &'static str,
    pub(crate) outbox_by_message: &'static str,
    pub(crate) inbox_alone: InboxSql,
    /// What follows the accept when the row was there, where one statement cannot say it all.
    pub(crate) accept_seen: Option<&'static str>,
    pub(crate) arrive: Arrive,
    /// Whether there may be something to claim: in the outbox, in the inbox; and whether nothing can be written.
    pub(crate) idle_poll: Option<&'static str>,
}

/// `{error_chars}`: the part of an error's text that tells what it is about.
pub(crate) const ERROR_CHARS: usize = 200;

/// The row is still held under the lease that is being settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence {
    /// `{fence}`: the one row of a statement.
    pub(crate) one: &'static str,
    /// `{fence_each}`: each row of a batch; none where rows are settled one after the other.
    pub(crate) each: Option<&'static str>,
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

impl Identity {
    pub(crate) const INBOX: Self = Self {
        columns: "source, message_id, hash, last_seen_at",
        key: "source = ?1 AND message_id = ?2",
        party: "source",
        here: "1 = 1",
        destination: "''",
    };

    /// `columns` end with a null of the type of the inbox's last.
    pub(crate) const fn outbox(columns: &'static str) -> Self {
        let (key, party, here, destination) = ("id = ?1", "destination", "destination IS NULL", "destination");
        Self { columns, key, party, here, destination }
    }
}

macro_rules! statements {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name<T = &'static str> {
            $($(#[$field_doc])* pub(crate) $field: T,)*
        }

        impl<T> $name<T> {
            /// The same, each as `told` says it.
            pub(crate) fn map<U>(&self, told: impl Fn(&T) -> U) -> $name<U> {
                $name { $($field: told(&self.$field),)* }
            }

            /// Each by its name.
            #[cfg(feature = "testing")]
            #[allow(dead_code, reason = "for tests that look at plans")]
            pub(crate) fn named(&self) -> Vec<(&'static str, &T)> {
                vec![$((stringify!($field), &self.$field),)*]
            }
        }
    };
}
pub(crate) use statements;

statements! {
    /// What both queues do.
    QueueSql {
        topics_next, suspects_next, ack, held, load_lease, load_claimed, load_over, load_expired, load_key, find_key,
        list, list_rows, brief_rows, save, put_back, dismiss, expire_dead, count_overdue, count_purgeable, failure_add,
        failure_trim, failure_list, hold_remove, hold_add, hold_list, audit_more, audit_add, audit_list, count_to,
        count_of, count, count_waiting, oldest, ahead_set,
    }
}

statements! {
    /// What is asked of rows in one state, which is in the text: the index of one state alone serves no other.
    InStateSql {
        /// `{listed}`: `{record}` or `{brief}`.
        list,
        /// The number of one row, counted from the newest.
        nth_newest,
        /// Rows from a number on, counted by what they ended with.
        groups,
        /// Rows that wait for a time ahead.
        ahead,
    }
}

statements! {
    /// What only the inbox does, and the marks beside it.
    InboxSql {
        insert, accept,
        /// A row that was handled in the transaction it arrives in, where nobody else can write meanwhile.
        handled,
        see, touch, content,
        /// Counts an attempt that begins outside the queue.
        begin,
        /// Rows that are neither in line nor finished.
        count,
        /// All rows: counted up to a hundred thousand, beyond that as many as the database thinks.
        size,
        /// Puts a handler's mark on a message; changes no row when it is there.
        mark_put,
        mark_find,
        /// Takes back a mark that was put at that time.
        mark_remove,
        marks_purge,
    }
}

/// The statements of one queue, with its tables' names in them.
#[derive(Debug)]
pub(crate) struct QueueStatements {
    sql: QueueSql<SqlTemplate>,
    pub(crate) claim: Claim<SqlTemplate>,
    pub(crate) many: Option<ManySql<SqlTemplate>>,
    pub(crate) extend: Extend<SqlTemplate>,
    states: Vec<(State, InState)>,
    pub(crate) purges: Purges,
    pub(crate) questions: QuestionStatements,
}

/// The statements for rows in one state.
#[derive(Debug)]
pub(crate) struct InState {
    pub(crate) brief: SqlTemplate,
    sql: InStateSql<SqlTemplate>,
}

impl Deref for QueueStatements {
    type Target = QueueSql<SqlTemplate>;

    fn deref(&self) -> &Self::Target {
        &self.sql
    }
}

impl Deref for InState {
    type Target = InStateSql<SqlTemplate>;

    fn deref(&self) -> &Self::Target {
        &self.sql
    }
}

impl QueueStatements {
    fn new(dialect: &Dialect, queue: Queue, on: &Renderer<'_>) -> Self {
        let one = |sql: &&str| on.one(sql);
        let in_state = |state: State| {
            let told = |sql: &str, listed| {
                on.one(&sql.replace("{state}", &state.code().to_string()).replace("{listed}", listed))
            };
            let brief = told(dialect.in_state.list, "{brief}");
            (state, InState { brief, sql: dialect.in_state.map(|sql| told(sql, "{record}")) })
        };
        Self {
            sql: dialect.queue.map(one),
            claim: dialect.claim.map(one),
            many: dialect.many.as_ref().map(|many| many.map(one)),
            extend: dialect.extend.map(one),
            states: State::FINISHED.into_iter().chain([State::Ready, State::Leased]).map(in_state).collect(),
            purges: Purges::new(&dialect.purge, queue, |sql| on.one(sql)),
            questions: QuestionStatements::new(&dialect.questions, |sql| on.one(sql)),
        }
    }

    /// None for a state that is asked for in no statement of its own.
    pub(crate) fn in_state(&self, state: State) -> Option<&InState> {
        self.states.iter().find(|(its, _)| *its == state).map(|(_, sql)| sql)
    }

    /// What may be claimed by one statement.
    pub(crate) fn claims_at_once(&self) -> Option<&Lines<SqlTemplate>> {
        if let Claim::AtOnce { take, .. } = &self.claim { Some(take) } else { None }
    }

    /// What a claim runs, in order: for a benchmark that looks at its plans.
    #[cfg(feature = "testing")]
    pub(crate) fn claim_texts(&self) -> Vec<String> {
        let texts = match &self.claim {
            Claim::AtOnce { take, look } => vec![look, &take.all],
            Claim::Listed { select, lease, look } => vec![look, &select.all, lease],
            Claim::Embedded { select, lease_all, .. } => {
                vec![&self.load_over, &self.load_expired, &select.all, lease_all]
            }
        };
        texts.into_iter().map(|text| text.sql().to_string()).collect()
    }

    /// Each text by its name: for tests that look at plans.
    #[cfg(feature = "testing")]
    #[allow(dead_code, reason = "for tests that look at plans")]
    pub(crate) fn named(&self) -> Vec<(&'static str, String)> {
        let mut named = self.sql.named();
        named.extend(self.many.iter().flat_map(ManySql::named));
        named.extend(self.claims_at_once().map(|take| ("claim", &take.all)));
        if let Extend::Answered(sql) = &self.extend {
            named.push(("extend_many", sql));
        }
        named.into_iter().map(|(name, text)| (name, text.sql().to_string())).collect()
    }
}

/// A dialect's statements with the tables' names in them: made once, when a store is opened.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) schema: String,
    pub(crate) schema_drop: String,
    pub(crate) schema_version: i64,
    pub(crate) schema_read: SqlTemplate,
    pub(crate) maintenance_take: SqlTemplate,
    pub(crate) outbox: QueueStatements,
    pub(crate) inbox: QueueStatements,
    pub(crate) insert_many: InsertMany<SqlTemplate>,
    pub(crate) outbox_insert: SqlTemplate,
    pub(crate) outbox_by_message: SqlTemplate,
    pub(crate) inbox_alone: InboxSql<SqlTemplate>,
    pub(crate) accept_seen: Option<SqlTemplate>,
    pub(crate) arrive: Arrive<SqlTemplate>,
    pub(crate) idle_poll: Option<SqlTemplate>,
    pub(crate) checks_saves: bool,
}

impl Statements {
    /// `fence` is the dialect's own, except in a test that shows what happens without one.
    pub(crate) fn new(dialect: &Dialect, tables: &TableNames, fence: Fence) -> Self {
        let [outbox, inbox] = [Queue::Outbox, Queue::Inbox].map(|queue| Renderer::new(dialect, tables, queue, fence));
        Self {
            schema: schema(dialect, tables, [&outbox, &inbox]),
            schema_drop: named(dialect.schema_drop.unwrap_or_default(), tables),
            schema_version: dialect.schema_version,
            schema_read: outbox.one(shared::SCHEMA_READ),
            maintenance_take: outbox.one(shared::MAINTENANCE_TAKE),
            outbox: QueueStatements::new(dialect, Queue::Outbox, &outbox),
            inbox: QueueStatements::new(dialect, Queue::Inbox, &inbox),
            insert_many: dialect.insert_many.map(|sql| outbox.one(sql)),
            outbox_insert: outbox.one(dialect.outbox_insert),
            outbox_by_message: outbox.one(dialect.outbox_by_message),
            inbox_alone: dialect.inbox_alone.map(|sql| inbox.one(sql)),
            accept_seen: dialect.accept_seen.map(|sql| inbox.one(sql)),
            arrive: dialect.arrive.map(|sql| inbox.one(sql)),
            idle_poll: dialect.idle_poll.map(|sql| inbox.one(&named(sql, tables))),
            checks_saves: dialect.checks_saves,
        }
    }

    pub(crate) fn of(&self, queue: Queue) -> &QueueStatements {
        match queue {
            Queue::Outbox => &self.outbox,
            Queue::Inbox => &self.inbox,
        }
    }
}
