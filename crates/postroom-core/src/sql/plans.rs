//! What databases do in different ways: each plan holds the statements that it takes.

use crate::sql::dialect::statements;

/// How messages are inserted together. `sizes` are the numbers of rows that a text is made for, largest first; none
/// where rows travel as arrays.
#[derive(Debug)]
pub(crate) enum InsertMany<T = &'static str> {
    /// One after the other.
    Each,
    /// By a statement that answers with the ids of those that are new. `null` stands for null in a text.
    Answered { sql: T, sizes: &'static [usize], null: Option<&'static str> },
    /// By a statement that stores all of them, or none if one is there already.
    AllOrNone { sql: T, sizes: &'static [usize] },
}

/// How messages are claimed. Every claim is given the same values: now, how many, owner, end of the lease, where to
/// begin, bytes, how many whatever their size; then four that say which topics and destinations are meant.
#[derive(Debug)]
pub(crate) enum Claim<T = &'static str> {
    /// By one statement. A `look` finds the first that is ready, the first lease that ends, and the first message past
    /// its time.
    AtOnce { take: Lines<T>, look: T },
    /// Rows are read and locked; those that fit get a lease. What is too large comes without its payload at first.
    Listed { select: Lines<T>, lease: T, look: T },
    /// The same where reading costs no trip and nobody else can write. `lease_all` is for all that a select finds.
    Embedded { select: Lines<T>, lease: T, lease_all: T, next: T },
}

/// How leases are extended.
#[derive(Debug)]
pub(crate) enum Extend<T = &'static str> {
    /// One after the other.
    Each(T),
    /// Together; answered with those that held.
    Answered(T),
}

/// How a row arrives in a receiver's transaction and is held there.
#[derive(Debug)]
pub(crate) enum Arrive<T = &'static str> {
    /// By a statement that answers whether no twin is in another transaction, and with the number of the row.
    Answered(T),
    /// An insert would wait for a twin: a look comes before it, and the number is asked for.
    Looked { look: T, insert: T, seq: T },
}

statements! {
    /// Some lines of a queue: all that is ready, that of some topics, what workers crashed with.
    Lines { all, topics, suspects }
}

statements! {
    /// What is done to many rows by one statement.
    ManySql { ack_many, save_many, load_leases, failure_add_many, failure_trim_many }
}

impl<T> InsertMany<T> {
    pub(crate) fn map<U>(&self, told: impl Fn(&T) -> U) -> InsertMany<U> {
        match self {
            Self::Each => InsertMany::Each,
            Self::Answered { sql, sizes, null } => InsertMany::Answered { sql: told(sql), sizes, null: *null },
            Self::AllOrNone { sql, sizes } => InsertMany::AllOrNone { sql: told(sql), sizes },
        }
    }
}

impl<T> Claim<T> {
    pub(crate) fn map<U>(&self, told: impl Fn(&T) -> U) -> Claim<U> {
        match self {
            Self::AtOnce { take, look } => Claim::AtOnce { take: take.map(&told), look: told(look) },
            Self::Listed { select, lease, look } => {
                Claim::Listed { select: select.map(&told), lease: told(lease), look: told(look) }
            }
            Self::Embedded { select, lease, lease_all, next } => {
                let (select, lease) = (select.map(&told), told(lease));
                Claim::Embedded { select, lease, lease_all: told(lease_all), next: told(next) }
            }
        }
    }
}

impl<T> Extend<T> {
    pub(crate) fn map<U>(&self, told: impl Fn(&T) -> U) -> Extend<U> {
        match self {
            Self::Each(sql) => Extend::Each(told(sql)),
            Self::Answered(sql) => Extend::Answered(told(sql)),
        }
    }
}

impl<T> Arrive<T> {
    pub(crate) fn map<U>(&self, told: impl Fn(&T) -> U) -> Arrive<U> {
        match self {
            Self::Answered(sql) => Arrive::Answered(told(sql)),
            Self::Looked { look, insert, seq } => {
                Arrive::Looked { look: told(look), insert: told(insert), seq: told(seq) }
            }
        }
    }
}
