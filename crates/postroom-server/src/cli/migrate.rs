//! `postroom migrate`: creates or updates the tables.

use anyhow::Result;
use clap::{Args, ValueEnum};
use postroom::mssql::MssqlStore;
use postroom::mysql::MySqlStore;
use postroom::postgres::PostgresStore;
use postroom::sql::TableNames;
use postroom::sqlite::SqliteStore;

use super::Global;
use crate::database::Database;
use crate::problem::{self, Problem};
use crate::{open, output};

/// Create or update the tables of Postroom; other tables stay unchanged
#[derive(Args)]
pub(crate) struct Migrate {
    /// Print the SQL instead, for your own migration tool. This touches no database
    #[arg(long)]
    print: bool,

    /// Change nothing. The exit code is 0 if the tables are up to date, and 5 if they are missing or have another
    /// version
    #[arg(long, conflicts_with = "print")]
    check: bool,

    /// With --print: the kind of database, in place of the one that --db names
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
        if self.print {
            let kind = self.kind.map_or_else(|| global.database().map(|database| Kind::of(&database)), Ok)?;
            let sql = kind.schema().trim_end().to_owned();
            return if global.json {
                output::json(&serde_json::json!({ "sql": sql }))
            } else {
                output::line(if kind == Kind::Mysql { for_the_client(&sql) } else { sql })
            };
        }
        let database = global.database()?;
        if self.check {
            check(&database).await?;
        } else {
            open::migrated(&database).await?;
        }
        if global.json {
            return output::json(&serde_json::json!({ "db": database.shown(), "tables": "up to date" }));
        }
        output::line(format!("{}: the tables are up to date", database.shown()))
    }
}

/// Adds DELIMITER lines: by default the MySQL client ends a statement at every semicolon.
fn for_the_client(sql: &str) -> String {
    let begun = sql.replace("\nCREATE PROCEDURE", "\nDELIMITER //\nCREATE PROCEDURE");
    begun.replace("\nEND;\n", "\nEND //\nDELIMITER ;\n")
}

/// Opening a store checks its tables before it writes anything.
async fn check(database: &Database) -> Result<()> {
    match open::existing(database).await {
        Err(error) if problem::is_about_schema(&error) => {
            let advice = "`postroom migrate`, which creates or updates the tables and changes nothing else";
            Err(Problem::other_schema(problem::told(&error), advice).into())
        }
        opened => opened.map(drop),
    }
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

    fn schema(self) -> String {
        match self {
            Self::Sqlite => SqliteStore::schema(&TableNames::default()),
            Self::Postgres => PostgresStore::schema(&TableNames::infra_schema()),
            Self::Mysql => MySqlStore::schema(&TableNames::infra_prefix()),
            Self::Mssql => MssqlStore::schema(&TableNames::infra_capitals()),
        }
    }
}
