//! A dialect is a value: the statements of one database, and the plans that differ between databases. Statements that
//! several databases share are in [`shared`](super::shared).

use std::ops::Deref;

use crate::queue::{Queue, State};
use crate::sql::TableNames;
use crate::sql::plans::{Arrive, Claim, Extend, InsertMany, LaneLook, Lines, ManySql, RuledLanes, Runs};
use crate::sql::purge::{PurgeTexts, Purges};
use crate::sql::questions::{QuestionSql, QuestionStatements};
use crate::sql::render::{Renderer, named};
use crate::sql::rules::{RULES, RuleSql};
use crate::sql::shared;
use crate::sql::steps::{Known, Steps};
use crate::sql::stops::{STOPS, StopSql};
use crate::sql::text::{Places, SqlTemplate};
use crate::sql::unique::UniqueSql;

/// The statements of one database. `{t}` stands for the queue's table; the other tables are named after it. `{n}` is
/// the table without its schema, and `{s}` is the schema with its dot, if there is one.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// How placeholders are written.
    pub(crate) places: Places,
    /// Whether the type of a value follows its number.
    pub(crate) casts: bool,
    /// The dialect's own words: `{name}`, and its replacement.
    pub(crate) words: &'static [(&'static str, &'static str)],
    /// The tables and indexes, for [`TableNames`] as `{outbox}` and `{inbox}`.
    pub(crate) schema: &'static str,
    /// `{each}`: what exists once per queue.
    pub(crate) schema_each: Option<&'static str>,
    /// `{create_schema}`: creates `{schema}`, if one is named.
    pub(crate) create_schema: Option<&'static str>,
    /// `{secure}`: where the functions of the schema find the tables, if no schema is named.
    pub(crate) secure: Option<&'static str>,
    /// Drops everything, for temporary tables.
    pub(crate) schema_drop: Option<&'static str>,
    /// The version of that schema.
    pub(crate) schema_version: i64,
    /// How tables of an older version are carried to it.
    pub(crate) steps: &'static Steps,
    pub(crate) fence: Fence,
    pub(crate) outbox: Identity,
    pub(crate) inbox: Identity,
    /// How messages are inserted, claimed and settled in batches.
    pub(crate) insert_many: InsertMany,
    pub(crate) claim: Claim,
    /// `None`: one after the other.
    pub(crate) many: Option<ManySql>,
    /// Acknowledges messages of one owner and claim number, by ranges of their numbers.
    pub(crate) ack_ranges: Option<&'static str>,
    pub(crate) extend: Extend,
    /// `None` where each message has its own row.
    pub(crate) runs: Option<Runs>,
    /// `None` where writers take turns, or where lanes are not kept.
    pub(crate) lanes: Option<LaneLook>,
    /// What follows when a rule of lanes changed. `None` where a trigger does it, or where lanes are not kept.
    pub(crate) ruled_lanes: Option<RuledLanes>,
    /// Whether a row can change between reading and writing it, because the server ignores locks.
    pub(crate) checks_saves: bool,
    /// The statements of both queues.
    pub(crate) queue: QueueSql,
    /// The statements for each state of a row: `{state}`.
    pub(crate) in_state: InStateSql,
    /// How old rows are deleted.
    pub(crate) purge: PurgeTexts,
    /// The queries of operators.
    pub(crate) questions: QuestionSql,
    pub(crate) outbox_insert: &'static str,
    pub(crate) outbox_by_message: &'static str,
    /// `None` where the outbox has no unique keys.
    pub(crate) unique: Option<UniqueSql>,
    pub(crate) inbox_alone: InboxSql,
    /// The statement that follows the accept if the row exists, where one statement cannot do everything.
    pub(crate) accept_seen: Option<&'static str>,
    pub(crate) arrive: Arrive,
    /// Returns whether there may be something to claim in the outbox and in the inbox, whether the server is
    /// read-only, and whether there are rules for the outbox and for the inbox.
    pub(crate) idle_poll: Option<&'static str>,
}

/// `{error_chars}`: the length of the part of an error text that identifies the problem.
pub(crate) const ERROR_CHARS: usize = 200;

/// Checks that the row is still held under the lease that is being settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence {
    /// `{fence}`: for a statement on one row.
    pub(crate) one: &'static str,
    /// `{fence_each}`: for each row of a batch. `None` where rows are settled one after the other.
    pub(crate) each: Option<&'static str>,
}

/// The columns that identify the rows of a queue.
#[derive(Debug)]
pub(crate) struct Identity {
    /// `{identity}`: four columns.
    pub(crate) columns: &'static str,
    /// `{key}`: one row.
    pub(crate) key: &'static str,
    /// `{party}`: the other service.
    pub(crate) party: &'static str,
    /// `{here}`: whether a message is handled here instead of being sent elsewhere.
    pub(crate) here: &'static str,
    /// `{destination}`: the service that it is sent to.
    pub(crate) destination: &'static str,
    /// `{seen}`: what a view of all messages joins for later arrivals of a message `m`.
    pub(crate) seen: &'static str,
}

impl Identity {
    pub(crate) const INBOX: Self = Self {
        columns: "source, message_id, hash, last_seen_at",
        key: "source = ?1 AND message_id = ?2",
        party: "source",
        here: "1 = 1",
        destination: "''",
        seen: "\n    LEFT JOIN {t}_seen AS s ON s.seq = m.seq",
    };

    /// `columns` end with a null of the same type as the inbox's last column.
    pub(crate) const fn outbox(columns: &'static str) -> Self {
        let (key, party, here, destination) = ("id = ?1", "destination", "destination IS NULL", "destination");
        Self { columns, key, party, here, destination, seen: "" }
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
            /// Returns the same statements, each converted by `told`.
            pub(crate) fn map<U>(&self, told: impl Fn(&T) -> U) -> $name<U> {
                $name { $($field: told(&self.$field),)* }
            }

            /// Returns each statement with its name.
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
    /// The statements of both queues.
    QueueSql {
        topics_next, suspects_next, ack, held, load_lease, load_claimed, load_over, load_expired, load_key, find_key,
        list, list_rows, brief_rows, save, put_back, dismiss, expire_dead, count_overdue, count_purgeable, failure_add,
        failure_trim, failure_list, hold_remove, hold_add, hold_list, audit_more, audit_add, audit_list, count_to,
        count_of, count_held_to, count_held_of, count, count_waiting, oldest, ahead_set, misplaced,
        /// The messages of a lane that wait or are in progress, in its order: place and number.
        lane_rows,
    }
}

statements! {
    /// Queries on rows in one state. The state is part of the text, because an index on one state serves no other.
    InStateSql {
        /// `{listed}`: `{record}` or `{brief}`.
        list,
        /// The number of a row, counted from the newest.
        nth_newest,
        /// Rows from a given number, grouped by their last error.
        groups,
        /// Rows that wait for a later time.
        ahead,
    }
}

statements! {
    /// The statements of the inbox only, and of its marks.
    InboxSql {
        insert, accept,
        /// A row that was handled in the transaction in which it arrived, where nobody else can write meanwhile.
        handled,
        see, touch, content,
        /// Counts an attempt that starts outside the queue.
        begin,
        /// Counts rows that are neither ready nor finished.
        count,
        /// Counts all rows up to a hundred thousand. Beyond that, it is the database's estimate.
        size,
        /// Adds a handler's mark to a message. Changes no row if the mark exists.
        mark_put,
        mark_find,
        /// Removes a mark that was added at the given time.
        mark_remove,
        marks_purge,
        /// When the last of a few more messages was done whose payloads can be dropped.
        payloads_until,
        payloads_drop,
    }
}

/// The statements of one queue, with the names of its tables.
#[derive(Debug)]
pub(crate) struct QueueStatements {
    sql: QueueSql<SqlTemplate>,
    pub(crate) claim: Claim<SqlTemplate>,
    pub(crate) many: Option<ManySql<SqlTemplate>>,
    pub(crate) ack_ranges: Option<SqlTemplate>,
    pub(crate) extend: Extend<SqlTemplate>,
    pub(crate) runs: Option<Runs<SqlTemplate>>,
    pub(crate) lanes: Option<LaneLook<SqlTemplate>>,
    pub(crate) ruled_lanes: Option<RuledLanes<SqlTemplate>>,
    states: Vec<(State, InState)>,
    pub(crate) purges: Purges,
    pub(crate) questions: QuestionStatements,
    pub(crate) rules: RuleSql<SqlTemplate>,
    pub(crate) stops: StopSql<SqlTemplate>,
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
            ack_ranges: dialect.ack_ranges.as_ref().map(one),
            extend: dialect.extend.map(one),
            runs: dialect.runs.as_ref().map(|runs| runs.map(one)),
            lanes: dialect.lanes.as_ref().map(|lanes| lanes.map(one)),
            ruled_lanes: dialect.ruled_lanes.as_ref().map(|ruled| ruled.map(one)),
            states: State::FINISHED.into_iter().chain([State::Ready, State::Leased]).map(in_state).collect(),
            purges: Purges::new(&dialect.purge, queue, |sql| on.one(sql)),
            questions: QuestionStatements::new(&dialect.questions, |sql| on.one(sql)),
            rules: RULES.map(one),
            stops: STOPS.map(one),
        }
    }

    /// Returns `None` for a state that has no separate statement.
    pub(crate) fn in_state(&self, state: State) -> Option<&InState> {
        self.states.iter().find(|(its, _)| *its == state).map(|(_, sql)| sql)
    }

    /// Returns the claims that take only one statement.
    pub(crate) fn claims_at_once(&self) -> Option<&Lines<SqlTemplate>> {
        match &self.claim {
            Claim::AtOnce { take, .. } | Claim::Called { alone: take, .. } => Some(take),
            Claim::Front { .. } => None,
        }
    }

    /// Returns the statements of a claim, in order, for a benchmark that examines their plans.
    #[cfg(feature = "testing")]
    pub(crate) fn claim_texts(&self) -> Vec<String> {
        let texts = match &self.claim {
            Claim::AtOnce { take, look, .. } => vec![look, &take.all],
            Claim::Called { look, .. } => vec![look],
            Claim::Front { line, front } => {
                vec![&self.load_over, &self.load_expired, &line.all, &front.at, &front.fresh]
            }
        };
        texts.into_iter().map(|text| text.sql().to_string()).collect()
    }

    /// Returns each text with its name, for tests that examine plans.
    #[cfg(feature = "testing")]
    #[allow(dead_code, reason = "for tests that look at plans")]
    pub(crate) fn named(&self) -> Vec<(&'static str, String)> {
        let mut named = self.sql.named();
        named.extend(self.many.iter().flat_map(ManySql::named));
        if let Claim::AtOnce { take, take_or_look, .. } = &self.claim {
            named.push(("claim", &take.all));
            named.extend(take_or_look.as_ref().map(|text| ("claim_or_look", text)));
        }
        if let Extend::Answered(sql) = &self.extend {
            named.push(("extend_many", sql));
        }
        named.into_iter().map(|(name, text)| (name, text.sql().to_string())).collect()
    }
}

/// A dialect's statements with the names of the tables. They are created once, when a store is opened.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) known: Known,
    pub(crate) schema_drop: String,
    pub(crate) schema_read: SqlTemplate,
    pub(crate) maintenance_take: SqlTemplate,
    pub(crate) payloads_from: SqlTemplate,
    pub(crate) payloads_dropped: SqlTemplate,
    pub(crate) outbox: QueueStatements,
    pub(crate) inbox: QueueStatements,
    pub(crate) insert_many: InsertMany<SqlTemplate>,
    pub(crate) outbox_insert: SqlTemplate,
    pub(crate) outbox_by_message: SqlTemplate,
    pub(crate) unique: Option<UniqueSql<SqlTemplate>>,
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
            known: Known::new(dialect),
            schema_drop: named(dialect.schema_drop.unwrap_or_default(), tables),
            schema_read: outbox.one(shared::SCHEMA_READ),
            maintenance_take: outbox.one(shared::MAINTENANCE_TAKE),
            payloads_from: outbox.one(shared::PAYLOADS_FROM),
            payloads_dropped: outbox.one(shared::PAYLOADS_DROPPED),
            outbox: QueueStatements::new(dialect, Queue::Outbox, &outbox),
            inbox: QueueStatements::new(dialect, Queue::Inbox, &inbox),
            insert_many: dialect.insert_many.map(|sql| outbox.one(sql)),
            outbox_insert: outbox.one(dialect.outbox_insert),
            outbox_by_message: outbox.one(dialect.outbox_by_message),
            unique: dialect.unique.as_ref().map(|unique| unique.map(|sql| outbox.one(sql))),
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
