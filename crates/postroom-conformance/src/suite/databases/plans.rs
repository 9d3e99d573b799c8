//! What the database's planner may do to a claim, and which indexes the statements of a settle use.

use std::time::Duration;

use postroom::Outbox;
use postroom::message::OwnerToken;
use postroom::mysql::{MySql, MySqlStore};
use postroom::postgres::{Postgres, PostgresStore};
use postroom::queue::Queue;
use postroom::sql::TableNames;
use sqlx::PgConnection;

use crate::by_wire::ByWire;
use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Stage};
use crate::servers::{self, Client};

cases! { plans:
    postgres a_claim_never_exceeds_its_batch_in_a_nested_loop ["OBX-026", "OBX-084"];
    postgres the_plain_claim_would_exceed_it [];
    postgres settles_use_the_primary_key_on_a_fresh_table [];
    postgres settles_use_the_primary_key_beside_100_000_leased_rows [];
    mariadb a_claim_in_doubt_is_looked_for_by_the_end_of_its_lease [];
    mariadb a_claim_starts_behind_the_last_one_among_messages_of_one_time [];
}

/// What settles or renews one lease, or a batch of them, and by which index; then what else finds rows to write.
const INDEXES: [(&str, &str); 12] = [
    ("ack", "held_pkey"),
    ("ack_many", "held_pkey"),
    ("extend_many", "held_pkey"),
    ("held", "held_pkey"),
    ("load_lease", "held_pkey"),
    ("save", "pkey"),
    ("put_back", "pkey"),
    ("list_rows", "pkey"),
    ("load_claimed", "until"),
    ("load_over", "until"),
    ("claim", "line_pkey"),
    ("claim_or_look", "line_pkey"),
];

fn text_of(texts: &[(&'static str, String)], name: &str) -> anyhow::Result<String> {
    let found = texts.iter().find(|(named, _)| *named == name);
    found.map(|(_, sql)| sql.clone()).ok_or_else(|| anyhow::anyhow!("there is no statement {name}"))
}

/// The plan that a connection for verbs keeps for a statement of the store.
async fn kept_plan(stage: &Stage<Postgres>, queue: Queue, name: &str) -> anyhow::Result<String> {
    let tables = TableNames::new("outbox", "inbox")?.in_schema(stage.place.own_name())?;
    let sql = text_of(&PostgresStore::statement_texts(&tables, queue), name)?;
    let values = (1..).take_while(|number| sql.contains(&format!("${number}"))).map(|_| "NULL").collect::<Vec<_>>();
    let mut client = stage.client().await?;
    for (setting, value) in PostgresStore::settings_for_verbs() {
        client.say(&format!("SET {setting} = '{value}'")).await?;
    }
    client.say(&format!("PREPARE looked_at AS {sql}")).await?;
    let explained = client.ask(&format!("EXPLAIN EXECUTE looked_at ({})", values.join(", "))).await?;
    Ok(explained.into_iter().flatten().collect::<Vec<_>>().join("\n"))
}

async fn settles_use_the_primary_key(stage: &Stage<Postgres>) -> Verdict {
    for queue in [Queue::Outbox, Queue::Inbox] {
        for (name, index) in INDEXES {
            let plan = kept_plan(stage, queue, name).await?;
            assert!(plan.contains(&format!("using {queue}_{index} ")), "{name}: {plan}");
            // Every index is entered at a value, and no table is read from its beginning.
            let (scans, entered) = (plan.matches(" using ").count(), plan.matches("Index Cond: (").count());
            assert!(scans == entered && !plan.contains("Seq Scan"), "{name}: {plan}");
        }
    }
    Ok(())
}

async fn settles_use_the_primary_key_on_a_fresh_table(stage: &Stage<Postgres>) -> Verdict {
    settles_use_the_primary_key(stage).await
}

async fn settles_use_the_primary_key_beside_100_000_leased_rows(stage: &Stage<Postgres>) -> Verdict {
    let (outbox, inbox) = (stage.table("outbox"), stage.table("inbox"));
    let work = "born, visible_at, topic, payload";
    let leased = "1, n, 'a', '{}' FROM generate_series(1, 100000) AS n";
    let mut client = stage.client().await?;
    client.say(&format!("INSERT INTO {outbox} (id, {work}) SELECT gen_random_uuid(), {leased}")).await?;
    client.say(&format!("INSERT INTO {inbox} (source, message_id, {work}) SELECT 'shop', n::text, {leased}")).await?;
    for table in [outbox, inbox] {
        let hold = format!(
            "WITH e AS (INSERT INTO {table}_lease (at, until, first_seq, last_seq, n)
                        SELECT 1, seq, seq, seq, 1 FROM {table} RETURNING no, first_seq)
             INSERT INTO {table}_held (seq, lease, owner, claim_no) SELECT first_seq, no, gen_random_uuid(), 1 FROM e"
        );
        client.say(&hold).await?;
    }
    client.say("ANALYZE").await?;
    settles_use_the_primary_key(stage).await
}

async fn a_claim_in_doubt_is_looked_for_by_the_end_of_its_lease(stage: &Stage<MySql>) -> Verdict {
    let tables = TableNames::infra_prefix();
    for queue in [Queue::Outbox, Queue::Inbox] {
        stage.side(queue).add_many("a", 200).await?;
        let sql = text_of(&MySqlStore::statement_texts(&tables, queue), "load_claimed")?;
        let explain = format!("EXPLAIN FORMAT=JSON {}", sql.replacen('?', "1", 1).replacen('?', "x'00'", 1));
        let plan = stage.client().await?.ask(&explain).await?.concat().concat();
        for index in ["lease_until", "taken_by"] {
            assert!(plan.contains(&format!("\"key\": \"infra_{queue}_{index}\"")), "{plan}");
        }
        assert!(plan.contains("\"used_key_parts\": [\"until\"]"), "{plan}");
        assert!(plan.contains("\"used_key_parts\": [\"done_at\", \"lease\"]"), "{plan}");
    }
    Ok(())
}

/// What was claimed stays in the index until it is purged, and a claim would step over all of it.
async fn a_claim_starts_behind_the_last_one_among_messages_of_one_time(stage: &Stage<MySql>) -> Verdict {
    for side in stage.sides() {
        let (table, mut client) = (stage.table(&format!("infra_{}", side.queue)), stage.client().await?);
        side.add_many("a", 30).await?;
        stage.advance(Duration::from_secs(1));
        let first = client.ask(&format!("SELECT min(seq) FROM {table}")).await?.concat().concat();
        let copy = format!("CREATE TABLE {table}_copy AS SELECT * FROM {table} WHERE seq = {first}");
        for words in [copy, format!("DELETE FROM {table} WHERE seq = {first}")] {
            client.say(&words).await?;
        }
        assert_eq!(side.claim(10).await?.len(), 10);
        assert_eq!(side.claim(10).await?.len(), 10);
        client.say(&format!("INSERT INTO {table} SELECT * FROM {table}_copy")).await?;
        let first = first.parse::<i64>()?;
        let seqs = async |batch| {
            let claimed = side.claim(batch).await?.into_iter().map(|claimed| claimed.lease.seq());
            anyhow::Ok(claimed.collect::<Vec<_>>())
        };
        assert!(seqs(5).await?.iter().all(|seq| *seq > first), "it looked at what was claimed before");
        stage.advance(Duration::from_secs(10));
        assert!(seqs(30).await?.contains(&first), "a look finds it");
    }
    Ok(())
}

/// Leaves the planner nothing but nested loops, in which a subquery is run again for each row.
fn nested_loops_only() -> String {
    let ways = ["hashjoin", "mergejoin", "material", "hashagg", "sort", "memoize"];
    let off: String = ways.iter().map(|way| format!("&options[enable_{way}]=off")).collect();
    servers::url(Postgres::VARIABLE) + &off
}

async fn a_claim_never_exceeds_its_batch_in_a_nested_loop(stage: &Stage<Postgres>) -> Verdict {
    let store = Postgres::open_by(&stage.place, &nested_loops_only(), None).await?;
    let side = stage.side(Queue::Outbox);
    side.add_many("a", 1000).await?;
    let outbox = Outbox::new(store);
    let mut leased = 0;
    for batch in [1, 1, 7, 50, 100] {
        let claimed = outbox.queue().claim(OwnerToken::new(), LEASE, batch).await?.claimed.len();
        leased += batch as u64;
        assert_eq!((claimed, side.verbs().stats().await?.leased), (batch, leased));
    }
    Ok(())
}

/// How many queues claim; the result is right with every other plan.
async fn the_plain_claim_would_exceed_it(stage: &Stage<Postgres>) -> Verdict {
    stage.side(Queue::Outbox).add_many("a", 1000).await?;
    let mut client = PgConnection::reach(&nested_loops_only()).await?;
    let table = stage.table("outbox");
    let plain = format!(
        "WITH claimed AS (UPDATE {table} SET max_attempts = 1 WHERE seq IN
             (SELECT seq FROM {table} WHERE max_attempts IS NULL LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING 1)
         SELECT count(*) FROM claimed"
    );
    let claimed: u32 = client.ask(&plain).await?[0][0].parse()?;
    assert!(claimed > 1, "one row was asked for, and one was claimed: the planner found another way");
    Ok(())
}
