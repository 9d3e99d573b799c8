//! What must go on whatever else happens in the database: old snapshots, rows that cannot be counted, long names.

use std::time::Duration;

use postroom::message::OwnerToken;
use postroom::postgres::Postgres;
use postroom::queue::Queue;
use postroom::sql::TableNames;
use postroom::store::Store;
use postroom::{Outbox, Worker};
use sqlx::PgConnection;
use sqlx::postgres::PgListener;

use crate::by_wire::ByWire;
use crate::case::{Verdict, cases};
use crate::harness::{Draft, LEASE, Stage, eventually, soon};
use crate::on_server::{OnServer, PASSWORD};
use crate::script::{Running, Script};
use crate::servers::{self, Client};

cases! { upkeep:
    postgres an_old_snapshot_does_not_make_idle_claims_walk_all_that_passed [];
    postgres rows_are_purged_though_nobody_can_count [];
    postgres long_names_of_tables_still_wake_others [];
}

const PASSED: u64 = 200_000;

/// As a report, a backup or a forgotten session does: nothing that was done since can be cleared away.
async fn an_old_snapshot_does_not_make_idle_claims_walk_all_that_passed(stage: &Stage<Postgres>) -> Verdict {
    let (table, at) = (stage.table("outbox"), stage.now().as_micros() - 3_600_000_000);
    let mut client = stage.client().await?;
    let insert = format!(
        "INSERT INTO {table} (id, topic, payload, visible_at)
         SELECT gen_random_uuid(), 'a', '{{}}', {at} + n FROM generate_series(1, {PASSED}) AS n"
    );
    client.say(&insert).await?;
    let mut reader = stage.client().await?;
    reader.say(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT seq FROM {table} LIMIT 1")).await?;
    let lease = format!("INSERT INTO {table}_lease (until, first_seq, last_seq, n) SELECT 1, seq, seq, 1 FROM {table}");
    let done = format!("INSERT INTO {table}_done (from_seq, to_seq, at, no) SELECT 1, max(seq), {at}, 1 FROM {table}");
    for passing in [format!("DELETE FROM {table}_line"), lease, format!("DELETE FROM {table}_lease"), done] {
        client.say(&passing).await?;
    }
    client.say("SELECT pg_stat_force_next_flush()").await?;
    let name = stage.place.own_name();
    let walked = async || {
        let sum = format!("SELECT sum(idx_tup_read)::text FROM pg_stat_user_indexes WHERE schemaname = '{name}'");
        let sum = PgConnection::reach(&Postgres::url(&stage.place)).await?.ask(&sum).await?.concat().concat();
        anyhow::Ok(sum.parse::<u64>()?)
    };
    // What runs beside it delays claims, and a claim that took long is followed by another look at everything. So the
    // best of three counts.
    let mut told = String::new();
    for _ in 0..3 {
        let before = walked().await?;
        let patience = Duration::from_secs(60);
        let store = Postgres::open_impatient(&stage.place, &servers::url(servers::POSTGRES), patience).await?;
        let (outbox, began) = (Outbox::new(store.clone()), tokio::time::Instant::now());
        for _ in 0..40 {
            assert!(outbox.queue().claim(OwnerToken::new(), LEASE, 10).await?.claimed.is_empty());
        }
        // What a connection has read is reported when it ends.
        store.close().await;
        eventually("its reads are told", || async { Ok(walked().await? > before) }).await?;
        // Every five seconds a claim looks at everything once more.
        let allowed = (10 + 3 * began.elapsed().as_secs() / 5) * PASSED;
        let walked = walked().await? - before;
        if walked < allowed {
            return Ok(());
        }
        told += &format!("{walked} entries for 40 empty claims beside {PASSED} that passed; ");
    }
    drop(reader);
    anyhow::bail!("{told}")
}

/// A user whose every count of what was only seen is refused.
async fn rows_are_purged_though_nobody_can_count(stage: &Stage<Postgres>) -> Verdict {
    let (space, side) = (stage.place.own_name(), stage.side(Queue::Inbox));
    let user = format!("{space}_u");
    for words in [
        format!("CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'"),
        format!("GRANT USAGE ON SCHEMA {space} TO {user}"),
        format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {space} TO {user}"),
        "CREATE FUNCTION refuse() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''nobody counts''; END'".into(),
        "ALTER TABLE inbox_trouble ENABLE ROW LEVEL SECURITY".into(),
        format!("CREATE POLICY counted ON inbox_trouble USING (state < 5 OR {space}.refuse()) WITH CHECK (true)"),
    ] {
        Postgres::tell(&stage.place, &words).await?;
    }
    stage.inbox.already_processed(&Draft::new("a").key()?).await?;
    let lease = side.leased("a").await?;
    side.ack(lease).await?;
    stage.clock.advance(Duration::from_secs(400 * 24 * 3600));
    let store = Postgres::open_as(&stage.place, &user, false).await?;
    let counted = postroom::Inbox::new(store.clone()).queue().stats().await;
    let worker = Running::start(Worker::<Postgres>::inbox(store, Script::succeed().handlers()));
    let purged = eventually("it is purged", || async { Ok(side.verbs().stats().await?.done == 0) }).await;
    worker.stop().await?;
    Postgres::tell(&stage.place, &format!("DROP OWNED BY {user}; DROP ROLE {user}")).await?;
    assert!(counted.is_err(), "the case shows nothing: all can be counted");
    purged
}

async fn long_names_of_tables_still_wake_others(stage: &Stage<Postgres>) -> Verdict {
    let (space, long) = (stage.place.own_name(), "o".repeat(48));
    let tables = TableNames::new(&long, "i".repeat(48))?.in_schema(&space)?;
    let outbox = Outbox::new(Postgres::open_tables(&stage.place, tables, true).await?);
    let hashed = format!("SELECT 'postroom_' || left(encode(sha256('postroom_{space}.{long}'), 'hex'), 32)");
    let channel = stage.client().await?.ask(&hashed).await?.concat().concat();
    let mut listener = PgListener::connect(&Postgres::url(&stage.place)).await?;
    listener.listen(&channel).await?;
    outbox.enqueue(postroom::NewMessage::new("a", "")).await?;
    let news = soon("the others are told", listener.recv()).await??;
    // The rest tells the store who sent it.
    assert_eq!(news.payload().split(' ').next(), Some(Queue::Outbox.as_str()));
    Ok(())
}
