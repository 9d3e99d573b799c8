//! Several processes on one file: the test program starts itself again as a child.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use postroom::message::OwnerToken;
use postroom::queue::{Settle, WorkQueue};
use postroom::sqlite::{Sqlite, SqliteOptions, SqliteStore};

use crate::case::{Verdict, cases};
use crate::harness::Stage;
use crate::suite::databases::any_language::terminal::{plain_mssql, plain_sqlite};
use crate::suite::databases::{disk, large, replaced};
use crate::suite::once::idempotent;

cases! { processes:
    sqlite no_message_is_under_two_live_leases ["OBX-083", "OBX-084"];
    sqlite no_arrived_message_is_under_two_live_leases ["IBX-105", "IBX-106"];
}

const ROLE: &str = "POSTROOM_CHILD";
const FILE: &str = "POSTROOM_CHILD_FILE";
const MESSAGES: usize = 1500;

/// Plays a child's part when this process was started as one; returns its exit code.
pub fn run_as_child() -> Option<i32> {
    let role = std::env::var(ROLE).ok()?;
    let played = (|| {
        let path = std::env::var_os(FILE).map(PathBuf::from).context("no file was named")?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        match role.as_str() {
            "outbox" | "inbox" => runtime.block_on(claim(&path, &role)),
            "opener" => runtime.block_on(open(&path)),
            "holder" => replaced::hold(&path),
            "plain-sqlite" => plain_sqlite(&path),
            "plain-mssql" => runtime.block_on(plain_mssql(path.to_str().context("no schema")?)),
            large::ROLE => runtime.block_on(large::play_part(&path)),
            role if disk::ROLES.contains(&role) => runtime.block_on(disk::play_part(role, &path)),
            role if idempotent::ROLES.contains(&role) => runtime.block_on(idempotent::play_part(role, &path)),
            other => anyhow::bail!("no part is called {other}"),
        }
    })();
    Some(played.map_or_else(
        |error| {
            eprintln!("{role}: {error:?}");
            1
        },
        |()| 0,
    ))
}

/// Makes a command a child with a part to play.
pub(in crate::suite) fn as_child(command: &mut Command, role: &str, file: &Path) {
    command.env(ROLE, role).env(FILE, file).stdin(Stdio::null());
}

/// Tries to open a file, and says how that was refused.
async fn open(path: &Path) -> Verdict {
    match SqliteOptions::new(path).open().await {
        Ok(_) => anyhow::bail!("it was not refused"),
        Err(error) => {
            println!("{:?}: {error}", error.kind());
            Ok(())
        }
    }
}

/// Claims and settles until nothing is left. A table has a row for each holder;
/// a second holder violates its key.
async fn claim(path: &Path, role: &str) -> Verdict {
    let store = SqliteOptions::new(path).open().await?;
    let (outbox, inbox) = (postroom::Outbox::new(store.clone()), postroom::Inbox::new(store.clone()));
    let verbs = if role == "outbox" { outbox.queue() } else { inbox.queue() };
    let mut pause = tokio::time::interval(Duration::from_millis(2));
    loop {
        let claims = verbs.claim(OwnerToken::new(), Duration::from_secs(3600), fastrand::usize(1..30)).await?;
        if claims.claimed.is_empty() {
            let stats = verbs.stats().await?;
            if stats.ready + stats.leased == 0 {
                return Ok(());
            }
            pause.tick().await;
            continue;
        }
        let leases = claims.claimed.into_iter().map(|claimed| claimed.lease).collect::<Vec<_>>();
        hold_and_settle(&store, verbs, leases).await?;
    }
}

async fn hold_and_settle(store: &SqliteStore, verbs: &WorkQueue, leases: Vec<postroom::queue::Lease>) -> Verdict {
    let rows: Vec<i64> = leases.iter().map(postroom::queue::Lease::seq).collect();
    let (taking, giving) = (rows.clone(), rows);
    let taken = store.write(move |tx| {
        taking.iter().try_for_each(|seq| tx.execute("INSERT INTO held VALUES (?1)", [seq]).map(drop))?;
        Ok(())
    });
    taken.await.context("a row is under two live leases")?;
    let given = store.write(move |tx| {
        giving.iter().try_for_each(|seq| tx.execute("DELETE FROM held WHERE seq = ?1", [seq]).map(drop))?;
        Ok(())
    });
    given.await?;
    let count = leases.len() as u64;
    let settles = leases.into_iter().map(|lease| match fastrand::u8(0..10) {
        0 => Settle::abandon(lease, Duration::from_millis(1), "by lot"),
        1 => Ok(Settle::release(lease)),
        _ => Ok(Settle::ack(lease)),
    });
    let settled = verbs.settle(settles.collect::<Result<_, _>>()?).await?;
    anyhow::ensure!((settled.applied, settled.lost) == (count, 0), "a live lease was lost: {settled:?}");
    Ok(())
}

async fn contend(stage: &Stage<Sqlite>, role: &'static str) -> Verdict {
    stage.store.write(|tx| Ok(tx.execute_batch("CREATE TABLE held (seq INTEGER PRIMARY KEY)")?)).await?;
    let side = stage.sides().into_iter().find(|side| side.queue.as_str() == role).context("no such queue")?;
    side.add_many("a", MESSAGES).await?;
    // Children go by the machine's clock, whatever it shows.
    let due = format!("UPDATE {role}_messages SET visible_at = 0, created_at = 0");
    stage.store.write(move |tx| Ok(tx.execute_batch(&due)?)).await?;
    let file = stage.place.path("store.db");
    let start = || {
        let mut command = Command::new(std::env::current_exe()?);
        as_child(&mut command, role, &file);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
    };
    let children = (0..4).map(|_| start()).collect::<std::io::Result<Vec<_>>>()?;
    for child in children {
        let ended = tokio::task::spawn_blocking(move || child.wait_with_output()).await??;
        anyhow::ensure!(ended.status.success(), "a child failed: {}", String::from_utf8_lossy(&ended.stderr));
    }
    let stats = side.verbs().stats().await?;
    assert_eq!((stats.done, stats.total()), (MESSAGES as u64, MESSAGES as u64));
    Ok(())
}

async fn no_message_is_under_two_live_leases(stage: &Stage<Sqlite>) -> Verdict {
    contend(stage, "outbox").await
}

async fn no_arrived_message_is_under_two_live_leases(stage: &Stage<Sqlite>) -> Verdict {
    contend(stage, "inbox").await
}
