//! The tables on a database server.

use futures_util::future::join_all;
use postroom::sql::TableNames;
use postroom::store::Store;
use postroom::{ErrorKind, NewMessage, Outbox};

use crate::case::{Verdict, cases};
use crate::harness::{Stage, refused};
use crate::on_server::OnServer;

cases! { deploy:
    server creates_what_is_missing_when_asked_to ["OBX-091", "OBX-094", "IBX-114", "IBX-117", "API-5.2", "PLN-10"];
    server creates_nothing_unless_asked_to ["OBX-092", "IBX-115", "API-5.2"];
    server needs_no_right_to_create_when_not_asked_to ["OBX-092", "IBX-115", "API-6.1"];
    server can_be_done_again_and_again ["OBX-093", "IBX-116"];
    server can_be_done_twice_at_once ["OBX-093", "IBX-116"];
    server refuses_a_newer_version [];
    server refuses_an_older_version [];
    server can_be_done_with_the_printed_text [];
    server makes_the_indexes_that_claims_and_lookups_need [
        "OBX-094", "OBX-100", "IBX-117", "IBX-122", "IBX-125", "SQM-3.1.3", "SQM-4.1.2", "API-7.1"];
    server makes_the_key_and_the_index_that_marks_need ["PLN-2.2", "PLN-10"];
    server leaves_other_tables_alone ["API-5.1", "PLN-2.1"];
}

const OUTBOX: &str = "fresh_out";
const INBOX: &str = "fresh_in";

fn fresh<B: OnServer>(stage: &Stage<B>) -> postroom::Result<TableNames> {
    B::tables(&stage.place, OUTBOX, INBOX)
}

async fn fresh_tables<B: OnServer>(stage: &Stage<B>) -> anyhow::Result<Vec<String>> {
    let mut tables = B::ask(&stage.place, B::TABLES).await?;
    tables.retain(|table| table.starts_with("fresh_"));
    tables.sort_unstable();
    Ok(tables)
}

async fn enqueued(store: impl Store) -> anyhow::Result<u64> {
    let outbox = Outbox::new(store);
    outbox.enqueue(NewMessage::new("a", "")).await?;
    Ok(outbox.queue().stats().await?.ready)
}

async fn creates_what_is_missing_when_asked_to<B: OnServer>(stage: &Stage<B>) -> Verdict {
    let store = B::open_tables(&stage.place, fresh(stage)?, true).await?;
    let mut expected = vec![OUTBOX.to_owned(), INBOX.to_owned(), format!("{INBOX}_marks")];
    for table in [OUTBOX, INBOX] {
        let beside = ["audit", "failures", "holds", "stops"].iter().chain(B::PLACES);
        expected.extend(beside.map(|name| format!("{table}_{name}")));
    }
    expected.extend(B::HAS_SEEN.then(|| format!("{INBOX}_seen")));
    expected.extend(B::HAS_KEYS.then(|| format!("{OUTBOX}_unique")));
    expected.sort_unstable();
    assert_eq!(fresh_tables(stage).await?, expected);
    assert_eq!(enqueued(store).await?, 1);
    Ok(())
}

async fn creates_nothing_unless_asked_to<B: OnServer>(stage: &Stage<B>) -> Verdict {
    let opened = B::open_tables(&stage.place, fresh(stage)?, false).await;
    refused(opened, ErrorKind::Schema, "a database without our tables")?;
    assert_eq!(fresh_tables(stage).await?, [""; 0]);
    B::tell(&stage.place, "DROP TABLE postroom_schema").await?;
    let opened = B::open_tables(&stage.place, fresh(stage)?, false).await;
    refused(opened, ErrorKind::Schema, "a database without any of our tables")
}

async fn needs_no_right_to_create_when_not_asked_to<B: OnServer>(stage: &Stage<B>) -> Verdict {
    drop(B::open_tables(&stage.place, fresh(stage)?, true).await?);
    let before = fresh_tables(stage).await?;
    assert_eq!(enqueued(B::open_tables(&stage.place, fresh(stage)?, false).await?).await?, 1);
    assert_eq!(fresh_tables(stage).await?, before);
    Ok(())
}

async fn can_be_done_again_and_again<B: OnServer>(stage: &Stage<B>) -> Verdict {
    for expected in 1..=4 {
        let store = B::open_tables(&stage.place, fresh(stage)?, true).await?;
        assert_eq!(enqueued(store).await?, expected, "what was there is gone");
    }
    Ok(())
}

async fn can_be_done_twice_at_once<B: OnServer>(stage: &Stage<B>) -> Verdict {
    let tables = fresh(stage)?;
    let opening = (0..8).map(|_| B::open_tables(&stage.place, tables.clone(), true));
    for opened in join_all(opening).await {
        enqueued(opened?).await?;
    }
    Ok(())
}

async fn refuses_a_newer_version<B: OnServer>(stage: &Stage<B>) -> Verdict {
    refuses_version(stage, "999").await
}

async fn refuses_an_older_version<B: OnServer>(stage: &Stage<B>) -> Verdict {
    refuses_version(stage, "0").await
}

async fn refuses_version<B: OnServer>(stage: &Stage<B>, other: &str) -> Verdict {
    drop(B::open_tables(&stage.place, fresh(stage)?, true).await?);
    let change = format!("UPDATE postroom_schema SET version = {other} WHERE outbox = 'fresh_out'");
    B::tell(&stage.place, &change).await?;
    for deploy in [false, true] {
        let opened = B::open_tables(&stage.place, fresh(stage)?, deploy).await;
        refused(opened, ErrorKind::Schema, "a schema of another version")?;
    }
    let version = "SELECT CAST(version AS CHAR(9)) FROM postroom_schema WHERE outbox = 'fresh_out'";
    assert_eq!(B::ask(&stage.place, version).await?[0].trim(), other, "another schema was changed");
    Ok(())
}

/// Running the printed text creates the schema; nothing else is needed to open it.
async fn can_be_done_with_the_printed_text<B: OnServer>(stage: &Stage<B>) -> Verdict {
    let text = B::schema(&fresh(stage)?);
    for _ in 0..2 {
        B::tell(&stage.place, &text).await?;
    }
    assert_eq!(enqueued(B::open_tables(&stage.place, fresh(stage)?, false).await?).await?, 1);
    Ok(())
}

async fn makes_the_indexes_that_claims_and_lookups_need<B: OnServer>(stage: &Stage<B>) -> Verdict {
    drop(B::open_tables(&stage.place, fresh(stage)?, true).await?);
    let indexes = async |table: &str| B::ask(&stage.place, &B::INDEXES.replace("{t}", table)).await;
    for table in [OUTBOX, INBOX] {
        for (place, columns) in B::BY_TIME.into_iter().chain([("trouble", "(state, at)")]) {
            let found = indexes(&format!("{table}_{place}")).await?;
            assert!(found.iter().any(|index| index.contains(columns)), "{place} has no {columns}: {found:?}");
        }
    }
    let found = indexes(INBOX).await?;
    assert!(found.iter().any(|index| index.contains("(source, message_id)")), "{found:?}");
    let found = indexes(OUTBOX).await?;
    assert!(found.iter().any(|index| index.contains("(id)")), "{found:?}");
    Ok(())
}

async fn makes_the_key_and_the_index_that_marks_need<B: OnServer>(stage: &Stage<B>) -> Verdict {
    drop(B::open_tables(&stage.place, fresh(stage)?, true).await?);
    let found = B::ask(&stage.place, &B::INDEXES.replace("{t}", &format!("{INBOX}_marks"))).await?;
    for columns in ["(source, message_id, handler)", "(handler, marked_at)"] {
        assert!(found.iter().any(|index| index.contains(columns)), "{columns}: {found:?}");
    }
    Ok(())
}

async fn leaves_other_tables_alone<B: OnServer>(stage: &Stage<B>) -> Verdict {
    B::tell(&stage.place, "CREATE TABLE fresh_orders (id INT); INSERT INTO fresh_orders VALUES (7)").await?;
    let own = B::open_tables(&stage.place, fresh(stage)?, true).await?;
    assert_eq!(enqueued(own).await?, 1);
    assert_eq!(stage.outbox.queue().stats().await?.ready, 0, "it stands in another store's table");
    assert_eq!(B::ask(&stage.place, "SELECT CAST(id AS CHAR(9)) FROM fresh_orders").await?[0].trim(), "7");
    Ok(())
}
