//! A process that is killed between the mark and the end of its handler: the test program starts itself as a child.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::Context;
use postroom::idempotent::{Idempotent, IdempotentOptions, Marking, Once};
use postroom::mssql::{Mssql, MssqlOptions, MssqlStore};
use postroom::mysql::{MySql, MySqlOptions, MySqlStore};
use postroom::postgres::{Postgres, PostgresOptions, PostgresStore};
use postroom::sql::TableNames;
use postroom::sqlite::{Sqlite, SqliteOptions, SqliteStore};
use postroom::{Ctx, HandlerResult, InboxKey, Incoming, Message};

use super::{forward, forwarded, with};
use crate::case::{Verdict, cases};
use crate::harness::{Stage, Testable};
use crate::script::Script;
use crate::servers;
use crate::suite::databases::processes::as_child;

cases! { idempotent:
    durable killed_with_the_mark_in_its_transaction_it_is_handled_once_when_delivered_again ["SQM-4.3.1", "PLN-0.1"];
    durable killed_with_the_mark_put_before_it_is_never_handled ["PLN-0.3"];
    durable killed_with_the_mark_put_before_it_is_never_handled_even_if_errors_release_it [];
}

/// The parts a child can play: a backend, and how it marks.
pub(in crate::suite) const ROLES: [&str; 4] = ["mark-sqlite", "mark-postgres", "mark-mariadb", "mark-mssql"];
const MARKING: &str = "POSTROOM_CHILD_MARKING";

/// A backend that a child can open too.
trait Shared: Testable {
    /// Where the child finds the case's store.
    fn place(stage: &Stage<Self>) -> PathBuf;

    async fn open_there(place: &Path) -> anyhow::Result<Self::Store>;
}

impl Shared for Sqlite {
    fn place(stage: &Stage<Self>) -> PathBuf {
        stage.place.path("store.db")
    }

    async fn open_there(place: &Path) -> anyhow::Result<SqliteStore> {
        Ok(SqliteOptions::new(place).open().await?)
    }
}

impl Shared for Postgres {
    fn place(stage: &Stage<Self>) -> PathBuf {
        stage.place.own_name().into()
    }

    async fn open_there(place: &Path) -> anyhow::Result<PostgresStore> {
        let schema = place.to_str().context("no schema")?;
        let tables = TableNames::new("outbox", "inbox")?.in_schema(schema)?;
        Ok(PostgresOptions::new(&servers::url(servers::POSTGRES))?.tables(tables).open().await?)
    }
}

impl Shared for MySql {
    fn place(stage: &Stage<Self>) -> PathBuf {
        stage.place.own_name().into()
    }

    async fn open_there(place: &Path) -> anyhow::Result<MySqlStore> {
        let url = servers::url_of_database(servers::MYSQL, place.to_str().context("no database")?);
        Ok(MySqlOptions::new(&url)?.open().await?)
    }
}

impl Shared for Mssql {
    fn place(stage: &Stage<Self>) -> PathBuf {
        stage.place.own_name().into()
    }

    async fn open_there(place: &Path) -> anyhow::Result<MssqlStore> {
        let tables = TableNames::new("outbox", "inbox")?.in_schema(place.to_str().context("no schema")?)?;
        Ok(MssqlOptions::new(&servers::url(servers::MSSQL))?.tables(tables).open().await?)
    }
}

fn delivery() -> anyhow::Result<Incoming> {
    Ok(Incoming::new(InboxKey::new("orders", "1")?, "order.placed", "{}"))
}

fn options(marking: &str) -> IdempotentOptions {
    match marking {
        "before" => IdempotentOptions::default().marking(Marking::before_handling()),
        "released" => IdempotentOptions::default().release_claim_on_error(true),
        _ => IdempotentOptions::default(),
    }
}

/// Plays a child's part: it is killed in the middle of it.
pub(in crate::suite) async fn play_part(role: &str, place: &Path) -> Verdict {
    match role {
        "mark-sqlite" => handle::<Sqlite>(place).await,
        "mark-postgres" => handle::<Postgres>(place).await,
        "mark-mssql" => handle::<Mssql>(place).await,
        _ => handle::<MySql>(place).await,
    }
}

async fn handle<B: Shared>(place: &Path) -> Verdict {
    let marking = std::env::var(MARKING)?;
    let store = B::open_there(place).await?;
    let consumer: Idempotent<B> = with(&store, "reserve", &Script::succeed(), options(&marking))?;
    let once = consumer.run_message(delivery()?, never_ends::<B>).await;
    anyhow::bail!("it came to its end: {once:?}")
}

/// Leaves its effect, says so, and waits for its death; without a parent it ends too.
async fn never_ends<B: Testable>(ctx: &mut Ctx<B>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let answer = forward(ctx, message).await?;
    println!("in the middle");
    tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0])).await??;
    Ok(answer)
}

/// Kills a child in the middle of its handler; then the message is delivered again, here.
async fn delivered_again<B: Shared>(stage: &Stage<B>, marking: &str) -> anyhow::Result<(Once<Option<String>>, usize)> {
    let role = format!("mark-{}", B::NAME);
    anyhow::ensure!(ROLES.contains(&role.as_str()), "nobody plays {role}");
    let mut command = Command::new(std::env::current_exe()?);
    as_child(&mut command, &role, &B::place(stage));
    let mut child = command.env(MARKING, marking).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let said = BufReader::new(child.stdout.take().context("no output")?);
    let said = tokio::task::spawn_blocking(move || said.lines().next().transpose()).await??;
    assert_eq!(said.as_deref(), Some("in the middle"));
    child.kill()?;
    tokio::task::spawn_blocking(move || child.wait()).await??;
    assert_eq!(forwarded(stage).await?, 0);
    let script = Script::succeed();
    let consumer = with(&stage.store, "reserve", &script, options(marking))?;
    let once = consumer.run_message(delivery()?, forward::<B>).await?;
    assert_eq!(consumer.run_message(delivery()?, forward::<B>).await?, Once::Duplicate);
    assert_eq!(script.count(), forwarded(stage).await?);
    Ok((once, script.count()))
}

async fn killed_with_the_mark_in_its_transaction_it_is_handled_once_when_delivered_again<B: Shared>(
    stage: &Stage<B>,
) -> Verdict {
    assert_eq!(delivered_again(stage, "in-transaction").await?, (Once::Ran(None), 1));
    Ok(())
}

async fn killed_with_the_mark_put_before_it_is_never_handled<B: Shared>(stage: &Stage<B>) -> Verdict {
    assert_eq!(delivered_again(stage, "before").await?, (Once::Duplicate, 0));
    Ok(())
}

async fn killed_with_the_mark_put_before_it_is_never_handled_even_if_errors_release_it<B: Shared>(
    stage: &Stage<B>,
) -> Verdict {
    assert_eq!(delivered_again(stage, "released").await?, (Once::Duplicate, 0));
    Ok(())
}
