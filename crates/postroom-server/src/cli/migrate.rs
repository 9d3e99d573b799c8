//! `postroom migrate`: creates or updates the tables.

use anyhow::Result;
use clap::{Args, ValueEnum};
use postroom::mssql::MssqlStore;
use postroom::mysql::MySqlStore;
use postroom::postgres::PostgresStore;
use postroom::sql::{Migration, TableNames};
use postroom::sqlite::SqliteStore;

use super::Global;
use crate::database::Database;
use crate::problem::{self, Problem};
use crate::{open, output};

/// Create the tables of Postroom, or carry them to a newer version; other tables stay unchanged
///
/// It can run while programs work, and from several programs at once. If it is broken off, run it again.
#[derive(Args)]
pub(crate) struct Migrate {
    /// Change nothing, and print the SQL that would be run, for the client of the database or your own migration tool
    #[arg(long)]
    print: bool,

    /// Change nothing. The exit code is 0 if the tables are up to date, and 5 if they are missing or have another
    /// version
    #[arg(long, conflicts_with = "print")]
    check: bool,

    /// Stop at this version of the tables. The default is the newest
    #[arg(long, value_name = "VERSION", conflicts_with = "kind")]
    to: Option<i64>,

    /// With --print: the SQL of new tables for this kind of database. This touches no database
    #[arg(long = "for", value_name = "KIND", requires = "print")]
    kind: Option<Kind>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Kind {
    Sqlite,
    Postgres,
    /// Also for MariaDB
    Mysql,
    /// SQL Server, with GO at the end of each batch
    Mssql,
}

impl Migrate {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        if let Some(kind) = self.kind {
            let sql = kind.schema();
            return if global.json { json_sql(None, &sql) } else { output::line(kind.for_the_client(&sql, false)) };
        }
        let database = global.database()?;
        if self.print {
            let ahead = open::migration(&database, self.to, false).await?;
            let kind = Kind::of(&database);
            return match global.json {
                true => json_sql(Some(&ahead), &ahead.sql),
                false if ahead.is_done() => output::line(format!("-- there is nothing to do: {}", stands(&ahead))),
                false => output::line(kind.for_the_client(&ahead.sql, ahead.from.is_some())),
            };
        }
        let done = if self.check {
            check(&database, self.to).await?
        } else {
            open::migration(&database, self.to, true).await?
        };
        let tables = if self.to.is_none() { "up to date".to_owned() } else { format!("at version {}", done.to) };
        if global.json {
            return output::json(&serde_json::json!({ "db": database.shown(), "tables": tables, "version": done.to }));
        }
        output::line(format!("{}: the tables are {tables}", database.shown()))
    }
}

fn json_sql(ahead: Option<&Migration>, sql: &str) -> Result<()> {
    let versions = ahead.map(|ahead| (ahead.from, ahead.to));
    let sql = sql.trim_end();
    output::json(&match versions {
        Some((from, to)) => serde_json::json!({ "sql": sql, "from": from, "to": to }),
        None => serde_json::json!({ "sql": sql }),
    })
}

fn stands(ahead: &Migration) -> String {
    format!("the tables have version {}", ahead.to)
}

/// Says what is to be done. Nothing is written.
async fn check(database: &Database, to: Option<i64>) -> Result<Migration> {
    if let Database::Sqlite(path) = database {
        open::existing_options(path)?;
    }
    let advice = "`postroom migrate`, which creates or updates the tables and changes nothing else";
    let ahead = open::migration(database, to, false).await;
    let ahead = ahead.map_err(|error| match problem::is_about_schema(&error) {
        true => Problem::other_schema(problem::told(&error), "a newer version of postroom").into(),
        false => error,
    })?;
    let what = match ahead.from {
        _ if ahead.is_done() => return Ok(ahead),
        None => format!("the tables are not there; `postroom migrate` creates them with version {}", ahead.to),
        Some(from) => {
            let steps = output::count((ahead.to - from).unsigned_abs(), "step");
            format!("the tables have version {from}; `postroom migrate` carries them to {} in {steps}", ahead.to)
        }
    };
    Err(Problem::other_schema(what, advice).into())
}

impl Kind {
    fn of(database: &Database) -> Self {
        match database {
            Database::Sqlite(_) => Self::Sqlite,
            Database::Postgres(_) => Self::Postgres,
            Database::MySql(_) => Self::Mysql,
            Database::Mssql(_) => Self::Mssql,
        }
    }

    /// The SQL with what the client of the database needs around it.
    fn for_the_client(self, sql: &str, is_step: bool) -> String {
        let sql = sql.trim_end();
        match self {
            // By default it ends a statement at every semicolon.
            Self::Mysql => delimited(sql),
            // By default they go on after an error.
            Self::Sqlite if is_step => format!(".bail on\n{sql}"),
            Self::Postgres if is_step => format!("\\set ON_ERROR_STOP on\n{sql}"),
            _ => sql.to_owned(),
        }
    }

    fn schema(self) -> String {
        match self {
            Self::Sqlite => SqliteStore::schema(&TableNames::default()),
            Self::Postgres => PostgresStore::schema(&TableNames::infra_schema()),
            Self::Mysql => MySqlStore::schema(&TableNames::infra_prefix()),
            Self::Mssql => MssqlStore::schema(&TableNames::infra_capitals()),
        }
    }
}

/// Marks the statements that have others inside them, for the client of MySQL and MariaDB.
fn delimited(sql: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut created = 0;
    for line in sql.lines() {
        match line {
            // It may have a label.
            _ if line.ends_with("BEGIN") && !line.starts_with(' ') => lines.insert(created, "DELIMITER //"),
            "END;" => {
                lines.extend(["END //", "DELIMITER ;"]);
                continue;
            }
            _ if line.starts_with("CREATE ") => created = lines.len(),
            _ => {}
        }
        lines.push(line);
    }
    lines.join("\n")
}
