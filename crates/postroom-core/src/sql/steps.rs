//! How tables are carried from one version to the next, and which versions a program works with.

use crate::queue::Queue;
use crate::sql::TableNames;
use crate::sql::dialect::Dialect;
use crate::sql::render::{Renderer, named, schema};
use crate::support::error::{Error, ErrorKind, Result};

/// The steps of one database, in order, and what a person writes around each of those that are transactions.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) begin: &'static str,
    pub(crate) commit: &'static str,
    pub(crate) list: &'static [Step],
}

/// Carries the tables from the version before `to`.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) to: i64,
    /// What it runs. `{tables}` is the whole schema. `{each}` is `each`, once for each queue.
    pub(crate) text: &'static str,
    pub(crate) each: &'static str,
    /// Whether it is one transaction. If not, its statements commit one by one, and the step can begin again wherever
    /// it was broken off. On PostgreSQL, blank lines separate them.
    pub(crate) atomic: bool,
    /// The lowest version that a program must know to work with the tables after this step.
    pub(crate) needs: i64,
    /// The lowest version of the tables that a program with this step works with.
    pub(crate) works_from: i64,
}

/// The version of the tables in a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) version: i64,
    /// The lowest version that a program must know.
    pub(crate) needs: i64,
}

/// One text that is run, and the version it leads to.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) to: i64,
    pub(crate) atomic: bool,
    pub(crate) text: String,
}

/// The versions of the tables that a program works with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) oldest: i64,
    pub(crate) newest: i64,
}

impl Known {
    pub(crate) fn new(dialect: &Dialect) -> Self {
        let newest = dialect.schema_version;
        Self { oldest: dialect.steps.list.last().map_or(newest, |step| step.works_from.min(newest)), newest }
    }

    /// Checks that this program works with tables of the version that was found.
    pub(crate) fn check(self, Found { version, needs }: Found) -> Result<()> {
        let Self { oldest, newest } = self;
        let why = match version {
            _ if (oldest..=newest).contains(&version) => return Ok(()),
            _ if version > newest && needs <= newest => return Ok(()),
            _ if version > newest => format!(
                "the schema has version {version} and needs a program that knows at least version {needs}; this one \
                 knows version {newest}"
            ),
            _ => format!("the schema has version {version}, and this program needs at least version {oldest}"),
        };
        Err(Error::new(ErrorKind::Schema, why))
    }
}

/// The way to the newest version of the tables.
#[derive(Debug)]
pub(crate) struct Way {
    known: Known,
    /// Creates the newest version.
    whole: Change,
    steps: Vec<Change>,
    pub(crate) begin: &'static str,
    pub(crate) commit: &'static str,
}

impl Way {
    pub(crate) fn new(dialect: &Dialect, tables: &TableNames) -> Self {
        let queues = [Queue::Outbox, Queue::Inbox].map(|queue| Renderer::new(dialect, tables, queue, dialect.fence));
        let text = schema(dialect, tables, queues.each_ref());
        let carried = |step: &Step| {
            let each = queues.each_ref().map(|queue| queue.told(step.each)).concat();
            let body = step.text.replace("{tables}\n", &text).replace("{each}\n", &each);
            Change {
                to: step.to,
                atomic: step.atomic,
                text: named(&format!("{body}\n{}", reached(step.to, step.needs)), tables),
            }
        };
        let Steps { begin, commit, list } = dialect.steps;
        Self {
            known: Known::new(dialect),
            steps: list.iter().map(carried).collect(),
            whole: Change { to: dialect.schema_version, atomic: true, text },
            begin,
            commit,
        }
    }

    /// Adds a version of the future, which programs of today can use, and which needs no transaction.
    #[cfg(feature = "testing")]
    pub(crate) fn followed_by(mut self, text: &str, tables: &TableNames) -> Self {
        let (to, needs) = (self.known.newest + 1, self.known.newest);
        let text = named(&format!("{text}\n{}", reached(to, needs)), tables);
        self.steps.push(Change { to, atomic: false, text });
        self.known.newest = to;
        self
    }

    /// Returns the SQL of the newest version.
    pub(crate) fn schema(self) -> String {
        self.whole.text
    }

    /// Returns what leads from the version that was found to `to`, or to the newest one.
    pub(crate) fn plan(&self, found: Option<Found>, to: Option<i64>) -> Result<&[Change]> {
        let newest = self.known.newest;
        let Some(found) = found else {
            return match to {
                Some(to) if to != newest => Err(Error::invalid(format!(
                    "the tables do not exist, and can be created with version {newest} only"
                ))),
                _ => Ok(std::slice::from_ref(&self.whole)),
            };
        };
        let version = found.version;
        if version > newest {
            self.known.check(found)?;
        }
        let highest = newest.max(version);
        if let Some(to) = to.filter(|to| !(version..=highest).contains(to)) {
            let allowed = if version == highest { version.to_string() } else { format!("{version} to {highest}") };
            return Err(Error::invalid(format!(
                "the tables have version {version} and cannot go to {to}: {allowed} is allowed"
            )));
        }
        let to = to.unwrap_or(highest);
        let is_wanted = |change: &Change| change.to > version && change.to <= to;
        let first = self.steps.iter().position(is_wanted).unwrap_or(self.steps.len());
        let steps = &self.steps[first..];
        let steps = &steps[..steps.iter().take_while(|change| is_wanted(change)).count()];
        if to > version && steps.first().is_none_or(|change| change.to != version + 1) {
            let why = format!("the schema has version {version}, and this program knows no way from there");
            return Err(Error::new(ErrorKind::Schema, why));
        }
        Ok(steps)
    }

    /// Returns the plan as a text that a person can run.
    pub(crate) fn told(&self, found: Option<Found>, to: Option<i64>) -> Result<Migration> {
        let plan = self.plan(found, to)?;
        let from = found.map(|found| found.version);
        let run = |change: &Change| match change.atomic && from.is_some() {
            true => format!("{}\n{}\n{}\n", self.begin, change.text.trim_end(), self.commit),
            false => change.text.clone(),
        };
        let to = plan.last().map_or(from.unwrap_or(self.known.newest), |change| change.to);
        Ok(Migration { from, to, sql: plan.iter().map(run).collect::<Vec<_>>().join("\n") })
    }
}

/// What ends a step: the version that the tables have now.
fn reached(to: i64, needs: i64) -> String {
    let needed = if needs == to { "NULL".to_owned() } else { needs.to_string() };
    format!(
        "UPDATE {{s}}postroom_schema SET version = {to}, needs = {needed}\n\
         WHERE outbox = '{{outbox_name}}' AND inbox = '{{inbox_name}}' AND version = {};\n",
        to - 1
    )
}

/// The way of the tables in a database to another version.
///
/// ```
/// use postroom::sqlite::SqliteOptions;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let dir = tempfile::tempdir().unwrap();
/// let options = SqliteOptions::new(dir.path().join("shop.db"));
/// let ahead = options.clone().migration(None).await?;
/// assert!(ahead.from.is_none() && ahead.sql.contains("CREATE TABLE"));
/// options.clone().migrate(None).await?;
/// assert!(options.migration(None).await?.is_done());
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Migration {
    /// The version of the tables; `None` if they do not exist.
    pub from: Option<i64>,
    /// The version that they get.
    pub to: i64,
    /// The SQL that does it, for people who run it themselves. It is empty if there is nothing to do.
    pub sql: String,
}

impl Migration {
    /// Returns whether there is nothing to do.
    pub fn is_done(&self) -> bool {
        self.from == Some(self.to)
    }
}
