//! Tables of an older version are carried to the newest, with everything in them.

mod in_file;
mod on_mssql;
mod on_mysql;
mod on_postgres;

use std::time::Duration;

use postroom::queue::Queue;
use postroom::store::Store;
use postroom_testbed::{Age, Old, OldKind};

use crate::case::{Case, Verdict};
use crate::harness::{Harness, eventually};
use crate::script::{Running, Script};

pub(super) fn cases() -> Vec<Case> {
    [in_file::CASES, on_mssql::CASES, on_mysql::CASES, on_postgres::CASES].concat()
}

const AGES: [Age; 2] = [Age::First, Age::Last];

/// The columns of a message that tables of version 1 had and the views of version 2 have.
const BOTH: [&str; 24] = [
    "seq",
    "message_id",
    "kind",
    "topic",
    "correlation_id",
    "headers",
    "payload",
    "state",
    "visible_at",
    "due_at",
    "next_attempt_at",
    "expires_at",
    "attempts",
    "max_attempts",
    "crashes",
    "claim_no",
    "owner",
    "locked_until",
    "created_at",
    "last_attempt_at",
    "last_error",
    "processed_at",
    "processed_by",
    "response",
];

/// Old tables under their usual names.
fn old(kind: OldKind, age: Age) -> Old<'static> {
    let (outbox, inbox) = match kind {
        OldKind::Sqlite => ("outbox_messages", "inbox_messages"),
        OldKind::Postgres => ("outbox", "inbox"),
        OldKind::MySql => ("infra_outbox", "infra_inbox"),
        OldKind::Mssql => ("{space}.outbox", "{space}.inbox"),
    };
    Old { kind, age, schema: None, outbox, inbox }
}

/// Queries for everything that must be the same before and after, one text for each row. `tables` are the tables that
/// have the messages: before, the queues themselves; after, the views of them. `text` makes a text of a column.
fn contents(old: Old<'_>, tables: [&str; 2], text: impl Fn(&str) -> String) -> Vec<String> {
    let select = |columns: &[&str], from: &str, order: &str| {
        let columns = columns.iter().map(|column| format!("coalesce({}, '-')", text(column))).collect::<Vec<_>>();
        format!("SELECT concat_ws('|', '', {}) FROM {from} ORDER BY {order}", columns.join(", "))
    };
    let dismissed: &[&str] = if old.age == Age::Last { &["dismissed_by", "dismissed_why"] } else { &[] };
    let code: &[&str] = if old.age == Age::Last { &["code"] } else { &[] };
    let failure = [&["seq", "at", "attempt", "worker", "error"], code].concat();
    let mut queries = vec![
        select(&[&BOTH[..], &["id", "destination"], dismissed].concat(), tables[0], "seq"),
        select(&[&BOTH[..], &["source", "hash", "last_seen_at"], dismissed].concat(), tables[1], "seq"),
        select(&failure, &format!("{}_failures", old.outbox), "seq, attempt"),
        select(&failure, &format!("{}_failures", old.inbox), "seq, attempt"),
        select(&["source", "message_id", "handler", "marked_at"], &format!("{}_marks", old.inbox), "source"),
    ];
    if old.age == Age::Last {
        queries.push(select(&["topic"], &format!("{}_marks", old.inbox), "source"));
        queries.push(select(&["act", "what", "messages", "at", "who", "why"], &format!("{}_audit", old.outbox), "at"));
        queries.push(select(&["kind", "name", "owner", "since", "why"], &format!("{}_holds", old.outbox), "name"));
    }
    queries
}

/// The messages of the outbox that are ready at once, by their payload.
const WAITING: [&str; 3] = ["eleven", "one", "three"];

/// Lets workers handle everything in the old tables but the message to another service, and compares what they got. The
/// worker of one message vanished. Two are held for an hour. Whenever the clock moves, nothing is in progress, and new
/// workers look at once. `late` was written during the migration.
async fn is_handled_once<S: Store + Clone>(
    h: &Harness,
    store: S,
    script: &Script,
    late: &[String],
    work: impl Fn(Queue) -> Running,
) -> Verdict {
    let queues = [Queue::Outbox, Queue::Inbox];
    for (seconds, left) in [(600, (1, 2)), (7200, (1, 0))] {
        h.clock.advance(Duration::from_secs(seconds));
        // Maintenance might do it after a worker has looked for suspects, and the next look would take too long.
        for queue in queues {
            let _ = store.reap(queue, 100).await?;
        }
        let workers = queues.map(&work);
        let what = format!("after {seconds} more seconds, {left:?} wait and are held");
        eventually(&what, || async {
            let (outbox, inbox) = (store.stats(queues[0]).await?, store.stats(queues[1]).await?);
            Ok((outbox.ready + inbox.ready, outbox.leased + inbox.leased) == left)
        })
        .await?;
        for worker in workers {
            worker.stop().await?;
        }
    }
    let mut expected = [&WAITING[..], &["one", "seven", "five", "four", "two"]].concat();
    expected.extend(late.iter().map(String::as_str));
    let mut handled: Vec<_> = script.calls().iter().map(|message| message.payload.clone()).collect();
    expected.sort_unstable();
    handled.sort_unstable();
    assert_eq!(handled, expected, "each once");
    Ok(())
}
