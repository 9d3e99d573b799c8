//! Random sequences of verbs, on the in-memory model and on SQLite: the same answers, the same rows.

mod draw;
mod play;

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Context;
use postroom::clock::{Clock, ManualClock};
use postroom::sqlite::{Durability, Sqlite, SqliteOptions};
use postroom::store::{MemoryStore, Store};
use rusqlite::Connection;

use crate::case::{Verdict, cases};
use crate::harness::{START, Stage};
use crate::wait::scale;
use draw::Op;
use play::World;

cases! { model:
    sqlite random_sequences_end_as_in_the_model [];
}

/// Names the seed of the random sequences.
pub const SEED_VARIABLE: &str = "POSTROOM_SEED";
/// More take a minute beside other cases. `POSTROOM_SCALE` plays more of them.
const SEQUENCES: u32 = 50;
const VERBS: usize = 60;

/// The seed of this run.
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let given = std::env::var(SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok());
        given.unwrap_or_else(|| fastrand::u64(..))
    })
}

async fn random_sequences_end_as_in_the_model(stage: &Stage<Sqlite>) -> Verdict {
    // The tables are created once, and each sequence gets a copy.
    let empty = stage.place.path("model.db");
    SqliteOptions::new(&empty).watch(false).deploy_schema(true).open().await?.close().await;
    Connection::open(&empty)?.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    for number in 0..u64::from(SEQUENCES * scale()) {
        std::fs::copy(&empty, stage.place.path(&format!("model-{number}.db")))?;
        let mut rng = fastrand::Rng::with_seed(seed().wrapping_add(number));
        let ops: Vec<_> = (0..VERBS).map(|_| Op::draw(&mut rng)).collect();
        let played = compare(stage, number, &ops).await;
        played.with_context(|| format!("sequence {number} of {SEED_VARIABLE}={}", seed()))?;
    }
    Ok(())
}

/// Plays one random sequence on a store of anybody's: no verb may fail.
pub(in crate::suite) async fn play_one(store: impl Store, clock: &ManualClock, number: u64) -> Verdict {
    let mut rng = fastrand::Rng::with_seed(seed().wrapping_add(number));
    let mut world = World::new(store);
    for op in (0..VERBS).map(|_| Op::draw(&mut rng)) {
        if !op.moves(clock) {
            drop(world.play(&op).await.with_context(|| format!("{op:?} of {SEED_VARIABLE}={}", seed()))?);
        }
    }
    Ok(())
}

async fn compare(stage: &Stage<Sqlite>, number: u64, ops: &[Op]) -> Verdict {
    let clock = ManualClock::new(START);
    let file = stage.place.path(&format!("model-{number}.db"));
    // Nothing is lost while the machine runs, and a sequence needs no more than that.
    let sqlite = SqliteOptions::new(&file).durability(Durability::Normal).watch(false);
    let sqlite = sqlite.idle(Duration::from_millis(200));
    let sqlite = sqlite.clock(Clock::Manual(clock.clone())).open().await?;
    let mut model = World::new(MemoryStore::with_clock(Clock::Manual(clock.clone())));
    let mut real = World::new(sqlite);
    let mut last = START;
    for (at, op) in ops.iter().enumerate() {
        // The clock goes back when a jump is confirmed, which is later than the jump. What was enqueued before that has
        // later times than what comes then.
        let now = clock.now();
        if op.turns_back() || now < last {
            model.look_at_all().await?;
            real.look_at_all().await?;
        }
        last = now;
        if op.moves(&clock) {
            if op.turns_back() {
                model.expire_all().await?;
                real.expire_all().await?;
            }
            continue;
        }
        let (expected, found) = (model.play(op).await?, real.play(op).await?);
        let story = || format!("after {:#?}\nthe model says {expected}\nSQLite says    {found}", &ops[..=at]);
        anyhow::ensure!(expected == found, "{}", story());
    }
    let (expected, found) = (model.rows().await?, real.rows().await?);
    for (expected, found) in expected.iter().zip(&found) {
        anyhow::ensure!(expected == found, "after {ops:#?}\nthe model has {expected}\nSQLite has    {found}");
    }
    anyhow::ensure!(expected.len() == found.len(), "the model has {} rows, SQLite {}", expected.len(), found.len());
    drop(real);
    misplaced(&file).with_context(|| format!("after {ops:#?}\nthe model"))?;
    std::fs::remove_file(&file)?;
    Ok(())
}

/// Every message stands in one place.
fn misplaced(file: &std::path::Path) -> Verdict {
    let conn = Connection::open(file)?;
    for queue in ["outbox", "inbox"] {
        let mut found = conn.prepare(&format!("SELECT seq, places FROM {queue}_messages_misplaced"))?;
        let found = found.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
        let found: Vec<_> = found.collect::<rusqlite::Result<_>>()?;
        anyhow::ensure!(found.is_empty(), "messages of the {queue} stand in no place or in two: {found:?}");
    }
    Ok(())
}
