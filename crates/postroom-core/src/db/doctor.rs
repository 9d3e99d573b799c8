//! Examines a database: judges which of its settings can lose messages or hold them up, and says what to do.
//!
//! ```no_run
//! # async fn look() -> postroom::Result<()> {
//! use postroom::doctor::Level;
//!
//! let report = postroom::sqlite::SqliteOptions::new("shop.db").examine().await?;
//! assert!(report.worst() < Level::Danger, "{:?}", report.findings);
//! # Ok(()) }
//! ```

mod facts;
pub(crate) mod schema;
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
pub(crate) mod server;
pub(crate) mod times;

pub(crate) use facts::Facts;

use serde::Serialize;

/// How serious a finding is.
///
/// ```
/// use postroom::doctor::Level;
///
/// assert!(Level::Warning < Level::Danger);
/// assert_eq!(Level::Danger.as_str(), "danger");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The setting is as it should be.
    Ok,
    /// Worth knowing; nothing has to be done.
    Notice,
    /// Messages wait, or work stops, sooner or later.
    Warning,
    /// Acknowledged messages can be lost, or nothing can be written at all.
    Danger,
}

impl Level {
    /// The level's name, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Danger => "danger",
        }
    }
}

/// The judgement of one setting.
///
/// ```
/// use postroom::doctor::Finding;
///
/// fn line(finding: &Finding) -> String {
///     let advice = finding.advice.as_deref().unwrap_or("nothing to do");
///     format!("{} {} = {}: {advice}", finding.level.as_str(), finding.setting, finding.value)
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// How serious it is.
    pub level: Level,
    /// The setting's name in its own database, or the name of whatever else was examined.
    pub setting: String,
    /// What it is set to, or what was found.
    pub value: String,
    /// What that means, and what can happen.
    pub meaning: String,
    /// What to do; `None` when the setting is as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    pub(crate) fn ok(setting: &str, value: impl Into<String>, meaning: impl Into<String>) -> Self {
        let (setting, value, meaning) = (setting.into(), value.into(), meaning.into());
        Self { level: Level::Ok, setting, value, meaning, advice: None }
    }

    pub(crate) fn new(
        level: Level,
        setting: &str,
        value: impl Into<String>,
        meaning: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { level, advice: Some(advice.into()), ..Self::ok(setting, value, meaning) }
    }

    /// Keeps this finding if `is_fine` is true. Otherwise it becomes one with this level, meaning and advice.
    pub(crate) fn only_if(self, is_fine: bool, (level, meaning, advice): (Level, &str, &str)) -> Self {
        if is_fine { self } else { Self::new(level, &self.setting, self.value, meaning, advice) }
    }
}

/// Everything that was examined in one database.
///
/// ```
/// use postroom::doctor::{Level, Report};
///
/// fn is_fit_for_production(report: &Report) -> bool {
///     for finding in report.at_least(Level::Warning) {
///         println!("{}: {}", report.database, finding.meaning);
///     }
///     report.worst() < Level::Danger
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Which database it is, without any secret.
    pub database: String,
    /// The findings, in the order in which they were examined.
    pub findings: Vec<Finding>,
}

impl Report {
    pub(crate) fn new(database: impl Into<String>, findings: Vec<Finding>) -> Self {
        Self { database: database.into(), findings }
    }

    /// The level of the most serious finding.
    pub fn worst(&self) -> Level {
        self.findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
    }

    /// The findings of this level or a more serious one.
    pub fn at_least(&self, level: Level) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.level >= level)
    }
}

/// A judgement of one setting; `None` when the database does not report it.
pub(crate) type Judge = fn(&Facts) -> Option<Finding>;

pub(crate) fn judged(facts: &Facts, judges: &[Judge]) -> Vec<Finding> {
    judges.iter().filter_map(|judge| judge(facts)).collect()
}
