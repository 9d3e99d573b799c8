//! What databases do in different ways. Each plan holds the statements that it needs.

use crate::sql::dialect::statements;

/// How messages are inserted in batches. `sizes` are the numbers of rows for which a text is prepared, largest first;
/// it is empty where rows travel as arrays.
#[derive(Debug)]
pub(crate) enum InsertMany<T = &'static str> {
    /// One after the other.
    Each,
    /// With a statement that returns the ids of the new messages. `null` stands for null in a text. `all_new` is faster
    /// for messages that nobody has stored before, and fails otherwise. `all_told` does the same and notifies others:
    /// two values more, the channel and what is said.
    Answered { sql: T, all_new: Option<T>, all_told: Option<T>, sizes: &'static [usize], null: Option<&'static str> },
    /// With a statement that stores all of them, or none if one exists already.
    AllOrNone { sql: T, sizes: &'static [usize] },
}

/// How messages are claimed. Every claim gets the same values: now, the limit, the owner, the end of the lease, the
/// time to start at, the limit in bytes, how many to take whatever their size, and the row to start at among those of
/// that time. Four more values select the topics and destinations.
#[derive(Debug)]
pub(crate) enum Claim<T = &'static str> {
    /// With one statement. A `look` finds the first ready row, the first lease that ends, and the first message that
    /// expires. `take_or_look` is a claim of all rows that looks if it finds nothing: the values of the look take
    /// the place of the topics.
    AtOnce { take: Lines<T>, look: T, take_or_look: Option<T> },
    /// With a procedure, which commits if it is called outside a transaction (`alone`), and not inside one (`within`).
    Called { alone: Lines<T>, within: Lines<T>, look: T },
    /// Where nobody else can write and reading takes no round trip: the rows that no claim has looked at follow one
    /// another, and only what a claim leaves behind gets a row in the line. `line` reads the number, position and size
    /// of messages there.
    Front { line: Lines<T>, front: Front<T> },
}

/// How leases are extended.
#[derive(Debug)]
pub(crate) enum Extend<T = &'static str> {
    /// One after the other.
    Each(T),
    /// In a batch. Returns the leases that were still held, and whether each was renewed: if not, it changed at that
    /// moment.
    Answered(T),
    /// A run of numbers at once, if it is held as such; otherwise one after the other.
    Runs { run: T, one: T },
}

/// How a row arrives in a receiver's transaction and is held there.
#[derive(Debug)]
pub(crate) enum Arrive<T = &'static str> {
    /// With a statement that returns whether no other transaction has the same message, and the row's number.
    Answered(T),
    /// An insert would wait for the other transaction. So a look comes first. The new row is held afterwards, by a
    /// statement that returns its number.
    Looked { look: T, insert: T, hold: T },
}

statements! {
    /// Parts of a queue: all ready rows, those of some topics, and suspects.
    Lines { all, topics, suspects }
}

statements! {
    /// The statements of [`Claim::Front`], besides those that read the line.
    Front {
        /// Where the front is.
        at,
        /// Messages that no claim has looked at, from a number behind the front on, in the order of their numbers.
        fresh,
        /// The number, topic, destination and lane of the same messages.
        skim,
        /// Takes a message out of the line.
        take,
        /// Puts a message into the line.
        pass,
        /// Enters messages of lanes, from a number to another, at a place there.
        enter,
        /// Enters all messages of a lane that no claim has looked at, up to a number.
        enter_up_to,
        /// Marks them as looked at.
        mark_up_to,
        /// Lets the first ones of the lane have their turn.
        look,
        /// Marks a message behind the front as looked at.
        mark,
        /// Finds the mark of a message.
        is_marked,
        /// Moves the front to a number, or behind all messages.
        advance,
        /// Moves the front to the first message that no claim has looked at.
        catch_up,
        /// Notes up to when expired messages were looked for.
        expired,
        /// When something in the line is due, or a lease ends.
        next,
    }
}

/// How the first messages of lanes get their turn, where several transactions write at once. Values: now, and how many
/// notes to take. It answers with one row: the notes that it took, the messages that it put into the line, the lanes of
/// which it could not have everything, whether there may be more notes, and the earliest time of what it put into the
/// line.
#[derive(Debug)]
pub(crate) enum LaneLook<T = &'static str> {
    /// With a statement.
    Anywhere(T),
    /// With a procedure that is a transaction of its own.
    Alone(T),
}

impl<T> LaneLook<T> {
    pub(crate) fn map<U>(&self, told: impl Fn(&T) -> U) -> LaneLook<U> {
        match self {
            Self::Anywhere(sql) => LaneLook::Anywhere(told(sql)),
            Self::Alone(sql) => LaneLook::Alone(told(sql)),
        }
    }
}

statements! {
    /// Statements for lanes whose rule changed, by the name of the lane or of the topic. Messages that have their turn
    /// and that nobody has claimed step back, and the lanes are looked at again.
    RuledLanes { lane, topic }
}

statements! {
    /// Statements on runs of numbers.
    Runs {
        /// Holds the messages of a run.
        hold,
        /// Acknowledges a run. Changes no row if a message of it is not held.
        ack,
        /// The answer of a message of a run.
        answered,
        /// The message that was inserted last is done.
        done,
    }
}

statements! {
    /// Statements that change many rows at once.
    ManySql { ack_many, save_many, load_leases, failure_add_many, failure_trim_many }
}

impl<T> InsertMany<T> {
    pub(crate) fn map<U>(&self, told: impl Fn(&T) -> U) -> InsertMany<U> {
        match self {
            Self::Each => InsertMany::Each,
            Self::Answered { sql, all_new, all_told, sizes, null } => {
                let [all_new, all_told] = [all_new, all_told].map(|sql| sql.as_ref().map(&told));
                InsertMany::Answered { sql: told(sql), all_new, all_told, sizes, null: *null }
            }
            Self::AllOrNone { sql, sizes } => InsertMany::AllOrNone { sql: told(sql), sizes },
        }
    }
}

impl<T> Claim<T> {
    pub(crate) fn map<U>(&self, told: impl Fn(&T) -> U) -> Claim<U> {
        match self {
            Self::AtOnce { take, look, take_or_look } => Claim::AtOnce {
                take: take.map(&told),
                look: told(look),
                take_or_look: take_or_look.as_ref().map(&told),
            },
            Self::Called { alone, within, look } => {
                Claim::Called { alone: alone.map(&told), within: within.map(&told), look: told(look) }
            }
            Self::Front { line, front } => Claim::Front { line: line.map(&told), front: front.map(&told) },
        }
    }
}

impl<T> Extend<T> {
    pub(crate) fn map<U>(&self, told: impl Fn(&T) -> U) -> Extend<U> {
        match self {
            Self::Each(sql) => Extend::Each(told(sql)),
            Self::Answered(sql) => Extend::Answered(told(sql)),
            Self::Runs { run, one } => Extend::Runs { run: told(run), one: told(one) },
        }
    }
}

impl<T> Arrive<T> {
    pub(crate) fn map<U>(&self, told: impl Fn(&T) -> U) -> Arrive<U> {
        match self {
            Self::Answered(sql) => Arrive::Answered(told(sql)),
            Self::Looked { look, insert, hold } => {
                Arrive::Looked { look: told(look), insert: told(insert), hold: told(hold) }
            }
        }
    }
}
