//! Users that may do little: work needs rows to be read and written, and nothing more.

use std::sync::Arc;

use postroom::mssql::Mssql;
use postroom::mysql::MySql;
use postroom::postgres::Postgres;
use postroom::{Ctx, ErrorKind, HandlerResult, Handlers, Message, NewMessage, Outbox, Worker};

use crate::case::{Verdict, cases};
use crate::harness::{Stage, eventually};
use crate::on_server::{OnServer, PASSWORD};
use crate::script::Running;
use crate::suite::queue::model;

cases! { grants:
    server rows_are_all_that_work_needs ["OBX-104", "IBX-126"];
    server without_one_of_the_rights_nothing_is_lost ["OBX-104", "IBX-126"];
    server deploying_needs_more_and_says_so [];
    server the_routine_needs_the_right_to_run_it ["OBX-105"];
}

const SEQUENCES: u64 = 10;

/// A server's users and their rights.
trait Rights: OnServer {
    /// Creates a user that may read and write rows of the case's tables.
    fn create(user: &str, space: &str) -> Vec<String>;

    /// Says what else it may no longer, or may.
    fn change(verb: &str, right: &str, user: &str, space: &str) -> String;

    /// Removes the user.
    fn remove(user: &str) -> String;

    /// Lets nobody, or this user, run the routine that enqueues.
    fn routine(user: Option<&str>, space: &str) -> String;

    /// Calls it.
    const CALL: &'static str;
    /// A right without which nobody claims.
    const CLAIM_RIGHT: &'static str = "UPDATE";
}

impl Rights for Postgres {
    fn create(user: &str, space: &str) -> Vec<String> {
        vec![
            format!("CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'"),
            format!("GRANT USAGE ON SCHEMA {space} TO {user}"),
            format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {space} TO {user}"),
        ]
    }

    fn change(verb: &str, right: &str, user: &str, space: &str) -> String {
        let to = if verb == "GRANT" { "TO" } else { "FROM" };
        format!("{verb} {right} ON ALL TABLES IN SCHEMA {space} {to} {user}")
    }

    fn remove(user: &str) -> String {
        format!("DROP OWNED BY {user}; DROP ROLE {user}")
    }

    fn routine(user: Option<&str>, space: &str) -> String {
        match user {
            None => format!("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {space} FROM PUBLIC"),
            Some(user) => format!("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {space} TO {user}"),
        }
    }

    const CALL: &'static str = "SELECT outbox_enqueue('a', 'seven')::text";
}

impl Rights for MySql {
    fn create(user: &str, space: &str) -> Vec<String> {
        vec![
            format!("CREATE USER {user} IDENTIFIED BY '{PASSWORD}'"),
            format!("GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON {space}.* TO {user}"),
        ]
    }

    fn change(verb: &str, right: &str, user: &str, space: &str) -> String {
        let to = if verb == "GRANT" { "TO" } else { "FROM" };
        format!("{verb} {right} ON {space}.* {to} {user}")
    }

    fn remove(user: &str) -> String {
        format!("DROP USER {user}")
    }

    fn routine(user: Option<&str>, space: &str) -> String {
        match user {
            None => format!("REVOKE EXECUTE ON {space}.* FROM {space}_u"),
            Some(user) => format!("GRANT EXECUTE ON {space}.* TO {user}"),
        }
    }

    const CALL: &'static str = "CALL infra_outbox_enqueue('a', 'seven', NULL, NULL)";
    // A message leaves the line when it is claimed.
    const CLAIM_RIGHT: &'static str = "DELETE";
}

impl Rights for Mssql {
    fn create(user: &str, space: &str) -> Vec<String> {
        vec![
            format!("CREATE LOGIN {user} WITH PASSWORD = '{PASSWORD}'"),
            format!("CREATE USER {user} FOR LOGIN {user}"),
            format!("GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON SCHEMA::{space} TO {user}"),
        ]
    }

    fn change(verb: &str, right: &str, user: &str, space: &str) -> String {
        let to = if verb == "GRANT" { "TO" } else { "FROM" };
        format!("{verb} {right} ON SCHEMA::{space} {to} {user}")
    }

    fn remove(user: &str) -> String {
        // Babelfish wants what was granted to be taken back first.
        let rights = format!("SELECT, INSERT, UPDATE, DELETE, EXECUTE ON SCHEMA::{}", user.trim_end_matches("_u"));
        format!("REVOKE {rights} FROM {user}\nGO\nDROP USER {user}\nGO\nDROP LOGIN {user}")
    }

    fn routine(user: Option<&str>, space: &str) -> String {
        match user {
            None => format!("REVOKE EXECUTE ON SCHEMA::{space} FROM {space}_u"),
            Some(user) => format!("GRANT EXECUTE ON SCHEMA::{space} TO {user}"),
        }
    }

    const CALL: &'static str = "EXEC outbox_enqueue N'a', N'seven'";
    const CLAIM_RIGHT: &'static str = "DELETE";
}

/// Runs a case with such a user, and removes it whatever happens.
async fn with_user<B: Rights>(stage: &Stage<B>, case: impl AsyncFnOnce(&str, &str) -> Verdict) -> Verdict {
    let (user, space) = (format!("{}_u", stage.place.own_name()), stage.place.own_name());
    for statement in B::create(&user, &space) {
        B::tell(&stage.place, &statement).await?;
    }
    let verdict = case(&user, &space).await;
    B::tell(&stage.place, &B::remove(&user)).await?;
    verdict
}

async fn forward<B: OnServer>(ctx: &mut Ctx<B>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    ctx.enqueue(NewMessage::new("forwarded", message.payload.clone())).await?;
    Ok(Some("done".into()))
}

/// Every verb there is, and a worker with its handlers and its maintenance.
async fn rows_are_all_that_work_needs<B: Rights>(stage: &Stage<B>) -> Verdict {
    with_user(stage, async |user, _| {
        let store = B::open_as(&stage.place, user, false).await?;
        for number in 0..SEQUENCES {
            model::play_one(store.clone(), &stage.clock, number).await?;
        }
        let handlers = Handlers::new().on_topic("ask", forward::<B>).fallback(ignore::<B>);
        let worker = Running::start(Worker::<B>::outbox(store.clone(), handlers));
        let outbox = Outbox::new(store);
        let asked = outbox.enqueue(NewMessage::new("ask", "")).await?;
        let outbox = &outbox;
        eventually("it is handled, and what it enqueued too", || async move {
            let found = outbox.find(asked.id().as_uuid()).await?;
            Ok(found.iter().any(|record| record.response() == Some("done")))
        })
        .await?;
        worker.stop().await
    })
    .await
}

async fn ignore<B: OnServer>(_: &mut Ctx<B>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    Ok(None)
}

async fn without_one_of_the_rights_nothing_is_lost<B: Rights>(stage: &Stage<B>) -> Verdict {
    stage.outbox.enqueue(NewMessage::new("a", "")).await?;
    with_user(stage, async |user, space| {
        for (right, refused_verb) in [("INSERT", "enqueue"), (B::CLAIM_RIGHT, "claim"), ("SELECT", "stats")] {
            B::tell(&stage.place, &B::change("REVOKE", right, user, space)).await?;
            let outcome = match B::open_as(&stage.place, user, false).await {
                // Where a right holds for all tables alike, the schema cannot be read without it.
                Err(error) => Err(error),
                Ok(store) => {
                    let outbox = Outbox::new(store);
                    match refused_verb {
                        "enqueue" => outbox.enqueue(NewMessage::new("a", "")).await.map(drop),
                        "claim" => outbox
                            .queue()
                            .claim(postroom::message::OwnerToken::new(), crate::harness::LEASE, 1)
                            .await
                            .map(drop),
                        _ => outbox.queue().stats().await.map(drop),
                    }
                }
            };
            let error = outcome.err().ok_or_else(|| anyhow::anyhow!("{refused_verb} without {right}"))?;
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{right}: {error}");
            B::tell(&stage.place, &B::change("GRANT", right, user, space)).await?;
        }
        let stats = stage.outbox.queue().stats().await?;
        assert_eq!((stats.ready, stats.total()), (1, 1));
        Ok(())
    })
    .await
}

async fn deploying_needs_more_and_says_so<B: Rights>(stage: &Stage<B>) -> Verdict {
    with_user(stage, async |user, space| {
        B::open_as(&stage.place, user, true).await?;
        // Nothing is deployed where everything is there; as if it were not:
        B::tell(&stage.place, &format!("DELETE FROM {space}.postroom_schema")).await?;
        let error = B::open_as(&stage.place, user, true).await.err();
        let error = error.ok_or_else(|| anyhow::anyhow!("a user that may only write rows has deployed the schema"))?;
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let told = error.to_string();
        assert!(told.contains("may not deploy the schema") && told.contains("postroom migrate"), "{told}");
        Ok(())
    })
    .await
}

async fn the_routine_needs_the_right_to_run_it<B: Rights>(stage: &Stage<B>) -> Verdict {
    with_user(stage, async |user, space| {
        B::tell(&stage.place, &B::routine(None, space)).await?;
        let refusal = B::ask_as(&stage.place, user, B::CALL).await.err();
        let refusal = refusal.map(|error| format!("{error:#}")).unwrap_or_default();
        assert!(refusal.contains("denied"), "{refusal}");
        B::tell(&stage.place, &B::routine(Some(user), space)).await?;
        B::ask_as(&stage.place, user, B::CALL).await?;
        assert_eq!(stage.outbox.queue().stats().await?.total(), 1);
        Ok(())
    })
    .await
}
