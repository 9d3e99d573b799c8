//! `postroom doctor`: checks a database for settings that can lose or delay messages.

use anyhow::{Context, Result, bail};
use clap::Args;
use postroom::doctor::{Finding, Level, Report};
use postroom::mssql::MssqlOptions;
use postroom::mysql::MySqlOptions;
use postroom::postgres::PostgresOptions;

use super::Global;
use crate::database::Database;
use crate::problem::Problem;
use crate::{open, output};

/// Check the database: its version, tables, clock, and settings that can lose or delay messages
///
/// This changes nothing. The exit code is 0 if there is no danger (with --strict, no warning either), 4 if there is
/// one, and 1 if the database could not be checked.
#[derive(Args)]
pub(crate) struct Doctor {
    /// Fail on warnings too
    #[arg(long)]
    strict: bool,

    /// Show only problems
    #[arg(long, short)]
    quiet: bool,
}

impl Doctor {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let report = examine(&global.database()?).await?;
        if global.json {
            output::json(&serde_json::json!({
                "database": report.database,
                "worst": report.worst().as_str(),
                "findings": report.findings,
            }))?;
        } else {
            self.print(&report)?;
        }
        let limit = if self.strict { Level::Warning } else { Level::Danger };
        let count = |level| report.findings.iter().filter(|finding| finding.level == level).count();
        if report.worst() >= limit {
            let (dangers, warnings) = (count(Level::Danger) as u64, count(Level::Warning) as u64);
            let what = format!("{} and {} found", output::count(dangers, "danger"), output::count(warnings, "warning"));
            bail!(Problem::unhealthy(what, "follow each `do:` line, then run `postroom doctor` again"));
        }
        Ok(())
    }

    fn print(&self, report: &Report) -> Result<()> {
        output::line(&report.database)?;
        let least = if self.quiet { Level::Notice } else { Level::Ok };
        let shown: Vec<&Finding> = report.at_least(least).collect();
        let width = shown.iter().map(|finding| heading(finding).chars().count()).max().unwrap_or(0);
        for finding in shown {
            output::line(format!("  {:<8} {:<width$}  {}", finding.level.as_str(), heading(finding), finding.meaning))?;
            if let Some(advice) = &finding.advice {
                output::line(format!("  {:<8} {:<width$}  do: {advice}", "", ""))?;
            }
        }
        Ok(())
    }
}

fn heading(finding: &Finding) -> String {
    format!("{} = {}", finding.setting, finding.value)
}

async fn examine(database: &Database) -> Result<Report> {
    let examined = match database {
        Database::Sqlite(path) => open::existing_options(path)?.examine().await,
        Database::Postgres(url) => PostgresOptions::new(url)?.examine().await,
        Database::MySql(url) => MySqlOptions::new(url)?.examine().await,
        Database::Mssql(url) => MssqlOptions::new(url)?.examine().await,
    };
    examined.with_context(|| format!("cannot check {}", database.shown()))
}
