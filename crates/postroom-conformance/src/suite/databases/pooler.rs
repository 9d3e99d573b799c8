//! PostgreSQL behind a pooler that gives each transaction another connection. What else must hold there, the matrix
//! repeats on it.

use std::collections::HashMap;
use std::sync::Arc;

use postroom::doctor::{Level, Report};
use postroom::postgres::{Postgres, PostgresOptions};
use postroom::{Ctx, ErrorKind, HandlerResult, Handlers, Message, NewMessage, Outbox, Worker};
use sqlx::Connection;
use sqlx::postgres::PgConnectOptions;

use crate::case::{Verdict, cases};
use crate::harness::{Stage, eventually};
use crate::on_server::OnServer;
use crate::script::Running;
use crate::servers::{self, Client};

cases! { pooler:
    pooler many_workers_share_few_connections [];
    pooler a_store_that_was_not_told_says_what_to_do [];
    pooler a_store_that_was_not_told_leaves_no_settings_behind [];
    pooler the_doctor_gets_through [];
}

const MESSAGES: usize = 300;
const WORKERS: usize = 4;

/// Writes with a statement that the driver names, as handlers do.
async fn note(ctx: &mut Ctx<Postgres>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let table = ctx.state::<String>()?;
    let insert = format!("INSERT INTO {table} (id) VALUES ($1)");
    sqlx::query(sqlx::AssertSqlSafe(insert)).bind(message.payload.clone()).execute(ctx.tx().await?).await?;
    ctx.enqueue(NewMessage::new("noted", "").due_at(postroom::clock::Timestamp::from_micros(i64::MAX))).await?;
    Ok(None)
}

async fn many_workers_share_few_connections(stage: &Stage<Postgres>) -> Verdict {
    let table = format!("{}.noted", stage.place.own_name());
    Postgres::tell(&stage.place, "CREATE TABLE noted (id text)").await?;
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        // Each with its own connections, as in a separate process.
        let store = stage.place.postgres_options()?.deploy_schema(false).open().await?;
        let handlers = Handlers::new().state(table.clone()).on_topic("note", note);
        workers.push(Running::start(Worker::<Postgres>::outbox(store, handlers)));
    }
    let messages = (0..MESSAGES).map(|n| NewMessage::new("note", n.to_string()));
    for message in messages {
        stage.outbox.enqueue(message).await?;
    }
    let queue = stage.outbox.queue();
    eventually("all is done", || async move { Ok(queue.stats().await?.done == MESSAGES as u64) }).await?;
    for worker in workers {
        worker.stop().await?;
    }
    let mut noted: HashMap<String, usize> = HashMap::new();
    for id in Postgres::ask(&stage.place, "SELECT id FROM noted").await? {
        *noted.entry(id).or_default() += 1;
    }
    assert_eq!(noted.len(), MESSAGES);
    assert!(noted.values().all(|times| *times == 1), "{noted:?}");
    assert_eq!(queue.stats().await?.ready, MESSAGES as u64, "what handlers enqueued");
    Ok(())
}

async fn a_store_that_was_not_told_says_what_to_do(stage: &Stage<Postgres>) -> Verdict {
    let url = servers::url(servers::POOLER);
    let plain = PostgresOptions::new(&url)?.tables(Postgres::tables(&stage.place, "outbox", "inbox")?);
    let error = plain.open().await.err().ok_or_else(|| anyhow::anyhow!("it was let in with settings of its own"))?;
    says_what_to_do(&error);
    // A pooler that lets such settings pass: sooner or later a statement's name is another client's.
    let lenient = url.parse::<PgConnectOptions>()?.extra_float_digits(None);
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let options = PostgresOptions::with(lenient.clone()).tables(Postgres::tables(&stage.place, "outbox", "inbox")?);
        clients.spawn(async move {
            let outbox = Outbox::new(options.open().await?);
            for n in 0..50 {
                outbox.enqueue(NewMessage::new("a", n.to_string())).await?;
                outbox.queue().stats().await?;
            }
            postroom::Result::Ok(())
        });
    }
    let mut refusals = 0;
    while let Some(client) = clients.join_next().await {
        if let Err(error) = client? {
            says_what_to_do(&error);
            refusals += 1;
        }
    }
    assert!(refusals > 0, "nobody noticed: is the pooler in transaction mode?");
    Ok(())
}

fn says_what_to_do(error: &postroom::Error) {
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("behind_pooler()"), "{error}");
}

/// Connections are shared with programs that know nothing of us.
async fn a_store_that_was_not_told_leaves_no_settings_behind(stage: &Stage<Postgres>) -> Verdict {
    let lenient = servers::url(servers::POOLER).parse::<PgConnectOptions>()?.extra_float_digits(None);
    for _ in 0..8 {
        let tables = Postgres::tables(&stage.place, "outbox", "inbox")?;
        // Whether it gets far or not.
        drop(PostgresOptions::with(lenient.clone()).tables(tables).open().await);
    }
    let shown = "BEGIN; SELECT current_setting('enable_bitmapscan') || current_setting('enable_seqscan')
                           || current_setting('default_transaction_isolation')";
    // All at once, so that each has another connection of the few there are.
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = sqlx::PgConnection::connect_with(&lenient).await?;
        assert_eq!(client.ask(shown).await?, [["ononread committed"]]);
        clients.push(client);
    }
    Ok(())
}

async fn the_doctor_gets_through(stage: &Stage<Postgres>) -> Verdict {
    let report = stage.place.postgres_options()?.examine().await?;
    assert!(report.findings.iter().any(|finding| finding.setting == "fsync"), "{:#?}", report.findings);
    let of_pooler = |report: &Report| report.findings.iter().find(|finding| finding.setting == "pooler").cloned();
    assert_eq!(of_pooler(&report).map(|finding| finding.level), Some(Level::Ok), "it is declared");
    // Its connections to the server were opened before, for others.
    let lenient = servers::url(servers::POOLER).parse::<PgConnectOptions>()?.extra_float_digits(None);
    // The pooler may just have opened another connection: the next question is asked on an older one.
    eventually("the pooler is seen", || async {
        let report = PostgresOptions::with(lenient.clone()).examine().await?;
        let finding = of_pooler(&report).ok_or_else(|| anyhow::anyhow!("nothing is said of it"))?;
        let advises = finding.advice.is_some_and(|advice| advice.contains("behind_pooler()"));
        anyhow::Ok(finding.level == Level::Warning && advises)
    })
    .await?;
    Ok(())
}
