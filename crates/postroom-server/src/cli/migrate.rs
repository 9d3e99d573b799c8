//! `postroom migrate`: the tables.

use anyhow::Result;
use clap::{Args, ValueEnum};
use postroom::{MssqlStore, MySqlStore, PostgresStore, SqliteStore, TableNames};

use super::Global;
use crate::database::Database;
use crate::problem::{self, Problem};
use crate::{open, output};

/// Create the tables in the database, or bring them up to date; other tables stay as they are
#[derive(Args)]
pub(crate) struct Migrate {
    /// Print the SQL instead, for migrations of your own; no database is touched
    #[arg(long)]
    print: bool,

    /// Change nothing: exit status 0 when the tables are there and up to date, 5 when they are missing or of another
    /// version
    #[arg(long, conflicts_with = "print")]
    check: bool,

    /// With --print: for this kind of database, whatever --db names
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

/// A client of MySQL ends a statement at each semicolon, unless it is told otherwise.
fn for_the_client(sql: &str) -> String {
    let begun = sql.replace("\nCREATE PROCEDURE", "\nDELIMITER //\nCREATE PROCEDURE");
    begun.replace("\nEND;\n", "\nEND //\nDELIMITER ;\n")
}

/// Opening a store looks at its tables before it writes anything.
async fn check(database: &Database) -> Result<()> {
    match open::existing(database).await {
        Err(error) if problem::is_about_schema(&error) => {
            let advice = "`postroom migrate`, which adds the tables and leaves everything else as it is";
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
