//! Whether a message was handled before.

use std::time::Duration;

use postroom::InboxKey;
use postroom::message::{ContentHash, Origin, hash_bytes};
use postroom::operator::Record;
use postroom::queue::State;
use postroom::sqlite::Sqlite;
use postroom::store::Arrival;
use tokio::task::JoinSet;

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Stage, readable};

cases! { dedupe:
    both a_message_is_known_by_source_and_id ["IBX-001", "API-10.4"];
    both a_new_message_is_remembered_as_seen ["IBX-002", "IBX-004", "API-1.1.1", "API-7.1"];
    both a_done_message_was_processed ["IBX-002", "IBX-003", "API-1.1.2"];
    both a_message_that_is_not_done_was_not_processed ["IBX-005", "API-1.1.2"];
    both a_second_look_moves_last_seen_and_nothing_else ["IBX-005", "IBX-026", "API-1.1.2", "API-4.1", "API-7.2"];
    both many_looks_at_once_make_one_row ["IBX-006", "API-1.1.3", "API-7.2"];
    both the_first_hash_is_kept ["IBX-007", "API-1.1.4"];
    both another_hash_is_no_error ["IBX-008", "API-1.1.4", "API-10.2"];
    both a_late_hash_is_stored ["IBX-007"];
    both a_hash_of_another_algorithm_is_not_compared ["IBX-007", "IBX-008"];
    sqlite a_row_says_what_its_hash_was_made_with ["IBX-007", "IBX-129"];
}

async fn get(h: &Harness, key: &InboxKey) -> anyhow::Result<Record> {
    h.inbox.get(key).await?.ok_or_else(|| anyhow::anyhow!("{key} is not known"))
}

fn origin(record: &Record) -> anyhow::Result<(Option<ContentHash>, postroom::clock::Timestamp)> {
    match &readable(record)?.origin {
        Origin::Inbox { hash, last_seen_at, .. } => Ok((hash.clone(), *last_seen_at)),
        other => anyhow::bail!("not a message that arrived: {other:?}"),
    }
}

async fn a_message_is_known_by_source_and_id(h: &Harness) -> Verdict {
    let keys = [InboxKey::new("stripe", "1")?, InboxKey::new("github", "1")?, InboxKey::new("stripe", "2")?];
    for key in &keys {
        assert!(!h.inbox.already_processed(key).await?);
    }
    assert!(h.inbox.mark_processed(&keys[0]).await?);
    assert!(h.inbox.already_processed(&keys[0]).await?);
    assert!(!h.inbox.already_processed(&keys[1]).await?, "the same id from another source");
    assert!(!h.inbox.already_processed(&keys[2]).await?, "another id from the same source");
    assert_eq!(h.inbox.queue().stats().await?.total(), 3);
    Ok(())
}

async fn a_new_message_is_remembered_as_seen(h: &Harness) -> Verdict {
    let key = Draft::new("a").key()?;
    assert!(!h.inbox.already_processed(&key).await?);
    let record = get(h, &key).await?;
    assert_eq!((record.state(), record.attempts(), record.visible_at()), (State::Seen, 0, None));
    assert_eq!(readable(&record)?.created_at, h.now());
    Ok(())
}

async fn a_done_message_was_processed(h: &Harness) -> Verdict {
    let side = h.side(postroom::queue::Queue::Inbox);
    let draft = Draft::new("a");
    side.put(&draft).await?;
    let lease = side.claim_one().await?;
    assert!(!h.inbox.already_processed(&draft.key()?).await?);
    side.ack(lease).await?;
    for _ in 0..3 {
        assert!(h.inbox.already_processed(&draft.key()?).await?);
    }
    Ok(())
}

async fn a_message_that_is_not_done_was_not_processed(h: &Harness) -> Verdict {
    let side = h.side(postroom::queue::Queue::Inbox);
    let (seen, processing, ready, leased, dead) =
        (Draft::new("a"), Draft::new("a"), Draft::new("a"), Draft::new("a"), Draft::new("a"));
    for draft in [&seen, &processing] {
        assert!(!h.inbox.already_processed(&draft.key()?).await?);
    }
    assert!(h.inbox.mark_processing(&processing.key()?).await?);
    side.put(&leased).await?;
    side.claim_one().await?;
    side.put(&dead).await?;
    let lease = side.claim_one().await?;
    side.fail(lease, "x").await?;
    side.put(&ready).await?;
    let states = [State::Seen, State::Processing, State::Ready, State::Leased, State::Dead];
    for (draft, state) in [seen, processing, ready, leased, dead].iter().zip(states) {
        assert!(!h.inbox.already_processed(&draft.key()?).await?, "{state:?}");
        assert_eq!(get(h, &draft.key()?).await?.state(), state);
    }
    Ok(())
}

async fn a_second_look_moves_last_seen_and_nothing_else(h: &Harness) -> Verdict {
    let key = Draft::new("a").key()?;
    let first = h.now();
    assert!(!h.inbox.already_processed(&key).await?);
    h.clock.advance(LEASE);
    assert!(!h.inbox.already_processed(&key).await?);
    let record = get(h, &key).await?;
    assert_eq!(origin(&record)?.1, h.now());
    assert_eq!(readable(&record)?.created_at, first);
    assert_eq!((record.state(), record.attempts(), record.claim_no()), (State::Seen, 0, 0));
    assert!(h.inbox.mark_processed(&key).await?);
    h.clock.advance(Duration::from_secs(1));
    assert!(h.inbox.already_processed(&key).await?);
    assert_eq!(origin(&get(h, &key).await?)?.1, h.now());
    Ok(())
}

async fn many_looks_at_once_make_one_row(h: &Harness) -> Verdict {
    let mut looks = JoinSet::new();
    for _ in 0..32 {
        let (inbox, key) = (h.inbox.clone(), InboxKey::new("shop", "one")?);
        looks.spawn(async move { inbox.already_processed(&key).await });
    }
    while let Some(looked) = looks.join_next().await {
        assert!(!looked??);
    }
    assert_eq!(h.inbox.queue().stats().await?.total(), 1);
    Ok(())
}

async fn the_first_hash_is_kept(h: &Harness) -> Verdict {
    let key = Draft::new("a").key()?;
    for content in ["first", "second", "first"] {
        assert!(!h.inbox.already_processed_hash(&key, Some(hash_bytes(content))).await?);
        assert_eq!(origin(&get(h, &key).await?)?.0, Some(ContentHash::from(hash_bytes("first"))));
    }
    Ok(())
}

async fn another_hash_is_no_error(h: &Harness) -> Verdict {
    let key = Draft::new("a").key()?;
    h.setup.logs.listen();
    assert!(!h.inbox.already_processed_hash(&key, Some(hash_bytes("a"))).await?);
    assert!(h.setup.logs.saying("inbox: the same id arrived with different content").is_empty());
    assert!(!h.inbox.already_processed_hash(&key, Some(hash_bytes("b"))).await?);
    assert!(h.inbox.mark_processed(&key).await?);
    assert!(h.inbox.already_processed_hash(&key, Some(hash_bytes("c"))).await?);
    let warned = h.setup.logs.saying("inbox: the same id arrived with different content");
    assert_eq!(warned.len(), 2);
    assert!(warned.iter().all(|line| line.level == tracing::Level::WARN));
    assert!(warned.iter().all(|line| line.field("message_id") == Some(key.message_id())));
    Ok(())
}

async fn a_late_hash_is_stored(h: &Harness) -> Verdict {
    let key = Draft::new("a").key()?;
    assert!(!h.inbox.already_processed(&key).await?);
    assert_eq!(origin(&get(h, &key).await?)?.0, None);
    assert!(!h.inbox.already_processed_hash(&key, Some(ContentHash::new("crc", [1, 2, 3])?)).await?);
    assert_eq!(origin(&get(h, &key).await?)?.0, Some(ContentHash::new("crc", [1, 2, 3])?));
    Ok(())
}

async fn a_hash_of_another_algorithm_is_not_compared(h: &Harness) -> Verdict {
    h.setup.logs.listen();
    let (draft, other) = (Draft::new("a"), ContentHash::new("blake3", hash_bytes("a"))?);
    assert!(!h.inbox.already_processed_hash(&draft.key()?, Some(hash_bytes("a"))).await?);
    assert!(!h.inbox.already_processed_hash(&draft.key()?, Some(other.clone())).await?);
    assert_eq!(origin(&get(h, &draft.key()?).await?)?.0, Some(hash_bytes("a").into()), "the first one stays");
    let seen = h.inbox.enqueue(draft.incoming()?.hash(other.clone())).await?;
    assert_eq!(seen, Arrival::Seen { hash_differs: false });
    assert_eq!(origin(&get(h, &draft.key()?).await?)?.0, Some(other), "it came with the content");
    let again = draft.incoming()?.hash(hash_bytes("b"));
    assert_eq!(h.inbox.enqueue(again).await?, Arrival::Known { done: false, differs: false });
    assert!(h.setup.logs.saying("inbox: the same id arrived with different content").is_empty());
    let changed = draft.clone().payload("[]").incoming()?.hash(hash_bytes("b"));
    assert_eq!(h.inbox.enqueue(changed).await?, Arrival::Replaced, "the content itself is compared all the same");
    Ok(())
}

async fn a_row_says_what_its_hash_was_made_with(stage: &Stage<Sqlite>) -> Verdict {
    let draft = Draft::new("a");
    stage.inbox.enqueue(draft.incoming()?.hash(hash_bytes("abc"))).await?;
    let sql = "SELECT hash FROM inbox_messages";
    let stored: Vec<u8> = stage.store.read(move |conn| Ok(conn.query_row(sql, [], |row| row.get(0))?)).await?;
    assert_eq!(stored, [b"sha256:".as_slice(), &hash_bytes("abc")].concat());
    // By another program, which does not say.
    let bare = hash_bytes("abd").to_vec();
    let sql = "UPDATE inbox_messages SET hash = ?1";
    assert_eq!(stage.store.write(move |tx| Ok(tx.execute(sql, [bare.clone()])?)).await?, 1);
    let read = origin(&get(stage, &draft.key()?).await?)?.0;
    assert_eq!(read.as_ref().map(|hash| (hash.algorithm(), hash.digest().len())), Some((None, 32)));
    let again = draft.incoming()?.hash(hash_bytes("abc"));
    assert_eq!(stage.inbox.accept(again).await?, Arrival::Known { done: false, differs: false });
    Ok(())
}
