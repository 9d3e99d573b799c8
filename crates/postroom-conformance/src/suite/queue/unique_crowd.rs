//! Unique keys that many want at once, or several messages of one batch.

use std::time::Duration;

use postroom::message::{Unique, WorkItemId};
use postroom::queue::Queue;
use postroom::{ErrorKind, NewMessage};
use tokio::task::JoinSet;

use super::unique::{index, is_free};
use crate::case::{Verdict, cases};
use crate::harness::Harness;

cases! { unique_crowd:
    keyed a_refused_message_disturbs_nobody [];
    keyed messages_of_one_batch_see_each_other [];
    keyed of_many_at_once_one_is_stored [];
    keyed of_many_that_replace_each_other_one_waits [];
}

const SECOND: Duration = Duration::from_secs(1);

async fn a_refused_message_disturbs_nobody(h: &Harness) -> Verdict {
    let unique = Unique::until_done("page-7").or_refuse();
    is_free(h, &unique).await?;
    let mut callers = JoinSet::new();
    for number in 0..40 {
        let (outbox, refusing) = (h.outbox.clone(), index(unique.clone()));
        callers.spawn(async move {
            let plain = NewMessage::new("page.read", "{}");
            match number % 2 {
                0 => outbox.enqueue(plain).await.map(drop),
                // What comes before it in the batch is not stored either.
                _ => outbox.enqueue_many([plain, refusing]).await.map(drop),
            }
        });
    }
    let mut refusals = 0;
    while let Some(stored) = callers.join_next().await {
        if let Err(error) = stored? {
            assert_eq!(error.kind(), ErrorKind::Duplicate, "{error}");
            refusals += 1;
        }
    }
    assert_eq!((refusals, h.side(Queue::Outbox).rows().await?), (20, 21));
    Ok(())
}

async fn messages_of_one_batch_see_each_other(h: &Harness) -> Verdict {
    let keep = Unique::while_waiting("page-7");
    let replace = Unique::while_waiting("page-8").or_replace();
    let plain = || NewMessage::new("page.read", "{}");
    let batch = [
        plain(),
        index(keep.clone()),
        index(keep),
        index(replace.clone()),
        plain().lane("pages"),
        index(replace.clone()).lane("pages"),
        index(replace).lane("pages"),
    ];
    let ids: Vec<_> = batch.iter().map(NewMessage::work_item_id).collect();
    let stored = h.outbox.enqueue_many(batch).await?;
    let told: Vec<_> = stored.iter().map(|one| (one.id(), one.is_new(), one.replaced())).collect();
    let expected = [
        (ids[0], true, None),
        (ids[1], true, None),
        (ids[1], false, None),
        (ids[3], true, None),
        (ids[4], true, None),
        (ids[5], true, Some(ids[3])),
        (ids[6], true, Some(ids[5])),
    ];
    assert_eq!(told, expected);
    let stats = h.outbox.queue().stats().await?;
    assert_eq!((stats.ready, stats.dismissed), (4, 2));
    Ok(())
}

/// Enqueues many at once, and says what came of them.
async fn many(h: &Harness, unique: &Unique) -> anyhow::Result<Vec<(bool, WorkItemId)>> {
    let mut callers = JoinSet::new();
    for _ in 0..24 {
        let (outbox, message) = (h.outbox.clone(), index(unique.clone()));
        callers.spawn(async move { outbox.enqueue(message).await });
    }
    let mut stored = Vec::new();
    while let Some(one) = callers.join_next().await {
        let one = one??;
        stored.push((one.is_new(), one.id()));
    }
    Ok(stored)
}

async fn of_many_at_once_one_is_stored(h: &Harness) -> Verdict {
    for unique in [Unique::while_waiting("page-7"), Unique::within("page-8", SECOND)] {
        let stored = many(h, &unique).await?;
        assert_eq!(stored.iter().filter(|(is_new, _)| *is_new).count(), 1, "{stored:?}");
        assert!(stored.iter().all(|(_, id)| *id == stored[0].1), "all of them name it: {stored:?}");
    }
    assert_eq!(h.side(Queue::Outbox).rows().await?, 2);
    Ok(())
}

async fn of_many_that_replace_each_other_one_waits(h: &Harness) -> Verdict {
    let unique = Unique::while_waiting("page-7").or_replace();
    let stored = many(h, &unique).await?;
    assert!(stored.iter().all(|(is_new, _)| *is_new), "{stored:?}");
    let stats = h.outbox.queue().stats().await?;
    assert_eq!((stats.ready, stats.dismissed), (1, 23));
    Ok(())
}
