//! Asks a server about itself. No store is opened, so a server that a store would refuse can be examined too.

use std::time::Duration;

use crate::db::doctor::Facts;
use crate::db::server::{Engine, Purpose, ServerConnection, Settings};
use crate::queue::Queue;
use crate::sql::{Statement, TableNames};
use crate::store::sql::SqlVerbs;
use crate::support::clock::{Clock, Timestamp, micros, monotonic};
use crate::support::error::{Error, ErrorKind, Result};
use crate::support::task::run_to_completion;

/// How long a server may take to accept a connection, and to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the server at `target` reports about itself and about our tables.
pub(crate) async fn examine<E: Engine>(target: E::Target, settings: &Settings, questions: &[&str]) -> Result<Facts> {
    let verbs = SqlVerbs::new(E::DIALECT, settings.tables.clone(), None, E::DIALECT.fence);
    let questions = about(questions, &settings.tables);
    let listeners = if settings.notify { E::LISTENERS } else { 0 };
    let connections = settings.connections + settings.verb_connections() + listeners;
    // Behind a pooler, every statement runs in a transaction.
    let is_pooled = !settings.statements_alone;
    let manual = Some(settings.clock.clone()).filter(|clock| matches!(clock, Clock::Manual(_)));
    let asking = run_to_completion(async move {
        let began = monotonic();
        let mut link = E::connect(&target, Purpose::Handlers).await?;
        let mut facts = Facts::default();
        facts.add("our.connections", connections);
        facts.add("our.pooler", is_pooled);
        for question in &questions {
            ask(&mut link, question, &mut facts).await?;
            // The first answer says how old the server's end of the connection is.
            if facts.text("our.age_micros").is_none() {
                facts.add("our.age_micros", micros(began.elapsed()));
            }
        }
        facts.add("schema.wanted", verbs.statements.schema_version);
        let said = link.begin().await?;
        if let Some(version) = verbs.schema_version(&mut link).await? {
            facts.add("schema.found", version);
            let now = manual.map_or(said.said, |clock| clock.now());
            // These questions are the last ones: a user who may not read the tables already has all other answers.
            if version == verbs.statements.schema_version
                && let Ok(ahead) = verbs.count_ahead(&mut link, now).await
            {
                facts.add("times.ahead", ahead);
                if let Ok(wrong) = verbs.count_misplaced(&mut link).await {
                    facts.add("places.wrong", wrong);
                }
            }
        }
        // A pooler closes the server's connection if a transaction is left open on it.
        let _ = link.roll_back().await;
        Ok(facts)
    });
    let late = |_| Error::new(ErrorKind::Unavailable, format!("the server did not answer for {PATIENCE:?}"));
    tokio::time::timeout(PATIENCE, asking).await.map_err(late)?
}

/// The questions, about these tables.
fn about(texts: &[&str], tables: &TableNames) -> Vec<Statement> {
    let (outbox, inbox) = (tables.of(Queue::Outbox), tables.of(Queue::Inbox));
    let prefix = tables.prefix();
    let render = |text: &&str| {
        let text = text
            .replace("{outbox_name}", outbox)
            .replace("{inbox_name}", inbox)
            .replace("{outbox}", &format!("{prefix}{outbox}"))
            .replace("{inbox}", &format!("{prefix}{inbox}"))
            .replace("{schema}", tables.schema().unwrap_or_default());
        Statement::new(text.into(), Vec::new())
    };
    texts.iter().map(render).collect()
}

/// Asks one question. If the server refuses to answer, the fact stays unknown; if it cannot be reached, that is an
/// error.
async fn ask(link: &mut impl ServerConnection, question: &Statement, facts: &mut Facts) -> Result<()> {
    let asked = Clock::Database.now();
    // Behind a pooler, only a transaction stays on one connection.
    link.begin().await?;
    let answers = link.query(question, |row| Ok((row.text(0)?, row.text(1)?))).await;
    let answered = Clock::Database.now();
    link.roll_back().await?;
    let answers = match answers {
        Err(error) if error.is_transient() => return Err(error),
        answers => answers.unwrap_or_default(),
    };
    for (name, value) in answers {
        if let (Some(name), Some(value)) = (name, value) {
            facts.add(&name, value);
        }
    }
    if let Some(said) = facts.number("now").filter(|_| facts.text("clock.ahead_micros").is_none()) {
        facts.add("clock.ahead_micros", ahead(said, asked, answered));
    }
    Ok(())
}

/// How far the server's clock was ahead of ours. The server read its clock between our question and its answer.
fn ahead(said: i64, asked: Timestamp, answered: Timestamp) -> i64 {
    let (earliest, latest) = (said - answered.as_micros(), said - asked.as_micros());
    if earliest <= 0 && latest >= 0 { 0 } else { (earliest + latest) / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_answer_is_no_wrong_clock() {
        let at = Timestamp::from_micros;
        assert_eq!(ahead(5_000_000, at(1_000_000), at(6_000_000)), 0);
        assert_eq!(ahead(9_000_000, at(1_000_000), at(3_000_000)), 7_000_000);
        assert_eq!(ahead(1_000_000, at(4_000_000), at(4_000_000)), -3_000_000);
    }
}
