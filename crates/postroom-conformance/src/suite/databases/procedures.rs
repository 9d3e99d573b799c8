//! The procedures of SQL Server: what they do to a row is what the library's verbs do.

use postroom::NewMessage;
use postroom::clock::Timestamp;
use postroom::message::OwnerToken;
use postroom::mssql::Mssql;
use postroom::operator::Record;
use postroom::queue::{Lease, Queue, State};

use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Stage};
use crate::on_server::OnServer;
use crate::servers::Client;

cases! { procedures:
    mssql a_claim_by_the_procedure_is_a_claim ["OBX-095", "OBX-101", "OBX-020", "OBX-021", "OBX-026"];
    mssql a_claim_without_a_lease_or_a_batch_is_refused ["OBX-027", "OBX-028"];
    mssql an_ack_by_the_procedure_is_an_ack ["OBX-095", "OBX-101", "OBX-033", "OBX-034"];
    mssql an_abandon_by_the_procedure_is_an_abandon ["OBX-095", "OBX-101", "OBX-038", "OBX-039", "OBX-040"];
    mssql a_fail_by_the_procedure_is_a_fail ["OBX-095", "OBX-101", "OBX-044", "OBX-046"];
    mssql a_message_past_its_time_is_not_tried_again [];
    mssql a_reap_by_the_procedure_is_a_reap ["OBX-095", "OBX-049", "OBX-050", "OBX-051", "OBX-052"];
    mssql an_expire_by_the_procedure_is_an_expire [];
    mssql what_the_library_refuses_they_refuse_too [];
    mssql they_are_the_same_ones_after_the_schema_is_deployed_again [];
    mssql they_take_part_in_the_callers_transaction ["OBX-101"];
}

/// Calls a procedure of the outbox at the case's time.
async fn call(stage: &Stage<Mssql>, verb: &str, arguments: &str) -> anyhow::Result<Vec<Vec<String>>> {
    let comma = if arguments.is_empty() { "" } else { ", " };
    let (outbox, now) = (stage.table("outbox"), stage.now().as_micros());
    Ok(stage.client().await?.ask(&format!("EXEC {outbox}_{verb} {arguments}{comma}@now = {now}")).await?)
}

/// The ids of rows, as the procedures take them.
async fn ids(stage: &Stage<Mssql>, seqs: &[i64]) -> anyhow::Result<String> {
    let list = seqs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let select = format!("SELECT id FROM {} WHERE seq IN ({list})", stage.table("outbox"));
    let found = stage.client().await?.ask(&select).await?.concat();
    Ok(format!("N'[{}]'", found.iter().map(|id| format!("\"{id}\"")).collect::<Vec<_>>().join(",")))
}

/// What an owner holds and is about to settle.
fn of(owner: OwnerToken, ids: &str) -> String {
    format!("@owner_token = '{owner}', @ids = {ids}")
}

type Seen = (State, u32, u32, Option<String>, Option<Timestamp>, Option<Timestamp>, Option<OwnerToken>);

/// A row as far as it must not matter who changed it.
fn seen(record: &Record) -> Seen {
    (
        record.state(),
        record.attempts(),
        record.crashes(),
        record.last_error().map(str::to_owned),
        record.visible_at(),
        record.processed_at(),
        record.processed_by(),
    )
}

/// Two leases of one owner: one for the procedure, one for the library.
async fn two(stage: &Stage<Mssql>) -> anyhow::Result<(Lease, Lease)> {
    let side = stage.side(Queue::Outbox);
    side.add_many("a", 2).await?;
    let claims = side.verbs().claim(OwnerToken::new(), LEASE, 2).await?;
    let mut leases = claims.claimed.into_iter().map(|claimed| claimed.lease);
    match (leases.next(), leases.next()) {
        (Some(one), Some(other)) => Ok((one, other)),
        _ => anyhow::bail!("two were added"),
    }
}

async fn alike(stage: &Stage<Mssql>, by_procedure: i64, by_library: i64) -> anyhow::Result<Record> {
    let side = stage.side(Queue::Outbox);
    let (one, other) = (side.record(by_procedure).await?, side.record(by_library).await?);
    assert_eq!(seen(&one), seen(&other));
    let failures = async |seq| stage.store_failures(seq).await;
    assert_eq!(failures(by_procedure).await?, failures(by_library).await?);
    Ok(one)
}

impl Stage<Mssql> {
    /// What was noted of a row's failures: attempt and error.
    async fn store_failures(&self, seq: i64) -> anyhow::Result<Vec<Vec<String>>> {
        let failures =
            format!("SELECT attempt, error FROM {} WHERE seq = {seq} ORDER BY no", self.table("outbox_failures"));
        Ok(self.client().await?.ask(&failures).await?)
    }
}

async fn a_claim_by_the_procedure_is_a_claim(stage: &Stage<Mssql>) -> Verdict {
    let (side, owner) = (stage.side(Queue::Outbox), OwnerToken::new());
    side.add_many("a", 3).await?;
    let claim = format!("@owner_token = '{owner}', @lease_seconds = 30, @batch_size = 2");
    let rows = call(stage, "claim", &claim).await?;
    assert_eq!(rows.len(), 2);
    for row in &rows {
        let record = side.record(row[0].parse()?).await?;
        assert_eq!((record.state(), record.owner()), (State::Leased, Some(owner)));
        assert_eq!((record.locked_until(), record.claim_no()), (Some(stage.now().plus(LEASE)), 1));
    }
    assert_eq!(call(stage, "claim", &claim).await?.len(), 1);
    assert!(call(stage, "claim", &claim).await?.is_empty());
    Ok(())
}

async fn a_claim_without_a_lease_or_a_batch_is_refused(stage: &Stage<Mssql>) -> Verdict {
    let owner = OwnerToken::new();
    stage.side(Queue::Outbox).add("a").await?;
    for wrong in ["@lease_seconds = 0", "@lease_seconds = -1", "@batch_size = 0", "@batch_size = -5"] {
        assert!(call(stage, "claim", &format!("@owner_token = '{owner}', {wrong}")).await.is_err(), "{wrong}");
    }
    assert_eq!(stage.outbox.queue().stats().await?.ready, 1);
    Ok(())
}

async fn an_ack_by_the_procedure_is_an_ack(stage: &Stage<Mssql>) -> Verdict {
    let (one, other) = two(stage).await?;
    let id = ids(stage, &[one.seq()]).await?;
    call(stage, "ack", &of(OwnerToken::new(), &id)).await?;
    assert_eq!(stage.side(Queue::Outbox).state(one.seq()).await?, State::Leased, "another owner's");
    call(stage, "ack", &of(one.owner(), "N'[]'")).await?;
    // Twice the same, and one that nobody knows.
    let unknown = OwnerToken::new().to_string();
    let twice = id.replace("]'", &format!(",{},\"{unknown}\"]'", id.trim_start_matches("N'[").trim_end_matches("]'")));
    call(stage, "ack", &of(one.owner(), &twice)).await?;
    stage.side(Queue::Outbox).ack(other.clone()).await?;
    assert_eq!(alike(stage, one.seq(), other.seq()).await?.state(), State::Done);
    Ok(())
}

async fn an_abandon_by_the_procedure_is_an_abandon(stage: &Stage<Mssql>) -> Verdict {
    for attempt in 1..=3_u32 {
        let (one, other) = two(stage).await?;
        let id = ids(stage, &[one.seq()]).await?;
        call(stage, "abandon", &format!("{}, @last_error = N'broken'", of(OwnerToken::new(), &id))).await?;
        assert_eq!(stage.side(Queue::Outbox).state(one.seq()).await?, State::Leased, "another owner's");
        let delay = std::time::Duration::from_secs(7);
        let arguments = format!("{}, @last_error = N'broken', @delay_seconds = 7", of(one.owner(), &id));
        call(stage, "abandon", &arguments).await?;
        stage.side(Queue::Outbox).settle(postroom::queue::Settle::abandon(other.clone(), delay, "broken")?).await?;
        let record = alike(stage, one.seq(), other.seq()).await?;
        assert_eq!((record.state(), record.attempts()), (State::Ready, 1), "round {attempt}");
    }
    // Without a delay it doubles from one second on.
    let seq = stage.side(Queue::Outbox).add("b").await?;
    for seconds in [1, 2, 4] {
        stage.clock.advance(std::time::Duration::from_secs(3600));
        let mut claimed = stage.side(Queue::Outbox).claim(100).await?;
        let at = claimed.iter().position(|claimed| claimed.lease.seq() == seq);
        let lease = claimed.remove(at.ok_or_else(|| anyhow::anyhow!("it is not in line"))?).lease;
        for other in claimed {
            stage.side(Queue::Outbox).ack(other.lease).await?;
        }
        call(stage, "abandon", &of(lease.owner(), &ids(stage, &[seq]).await?)).await?;
        let expected = stage.now().plus(std::time::Duration::from_secs(seconds));
        assert_eq!(stage.side(Queue::Outbox).record(seq).await?.visible_at(), Some(expected));
    }
    Ok(())
}

async fn a_fail_by_the_procedure_is_a_fail(stage: &Stage<Mssql>) -> Verdict {
    let (one, other) = two(stage).await?;
    let id = ids(stage, &[one.seq()]).await?;
    call(stage, "fail", &format!("{}, @last_error = N'never'", of(OwnerToken::new(), &id))).await?;
    assert_eq!(stage.side(Queue::Outbox).state(one.seq()).await?, State::Leased, "another owner's");
    call(stage, "fail", &format!("{}, @last_error = N'never'", of(one.owner(), &id))).await?;
    stage.side(Queue::Outbox).fail(other.clone(), "never").await?;
    let record = alike(stage, one.seq(), other.seq()).await?;
    assert_eq!((record.state(), record.last_error()), (State::Dead, Some("never")));
    Ok(())
}

async fn a_message_past_its_time_is_not_tried_again(stage: &Stage<Mssql>) -> Verdict {
    let minute = std::time::Duration::from_secs(60);
    let message = || NewMessage::new("a", "").expires_after(minute / 4);
    let _ = (stage.outbox.enqueue(message()).await?, stage.outbox.enqueue(message()).await?);
    let claims = stage.outbox.queue().claim(OwnerToken::new(), LEASE, 2).await?;
    let leases: Vec<Lease> = claims.claimed.into_iter().map(|claimed| claimed.lease).collect();
    stage.clock.advance(minute / 3);
    let id = ids(stage, &[leases[0].seq()]).await?;
    call(stage, "abandon", &format!("{}, @last_error = N'late'", of(leases[0].owner(), &id))).await?;
    stage.side(Queue::Outbox).abandon(leases[1].clone(), "late").await?;
    assert_eq!(alike(stage, leases[0].seq(), leases[1].seq()).await?.state(), State::Expired);
    Ok(())
}

/// One store is reaped by the procedure, the other by the library, until the message is dead.
async fn a_reap_by_the_procedure_is_a_reap(stage: &Stage<Mssql>) -> Verdict {
    let other = stage.another("other").await?;
    let (one, two) = (stage.side(Queue::Outbox), other.side(Queue::Outbox));
    let acked = one.leased("done").await?;
    one.ack(acked.clone()).await?;
    let (left, right) = (one.add("a").await?, two.add("a").await?);
    let owner = OwnerToken::new();
    for round in 1..=4 {
        stage.clock.advance(std::time::Duration::from_secs(60));
        for side in [&one, &two] {
            assert_eq!(side.verbs().claim(owner, LEASE, 1).await?.claimed.len(), 1, "round {round}");
        }
        assert_eq!(call(stage, "reap", "").await?, [["0"]], "its lease is not over");
        stage.clock.advance(LEASE);
        assert_eq!(call(stage, "reap", "").await?, [["1"]]);
        let _ = two.verbs().reap(10).await?;
        let (left, right) = (one.record(left).await?, two.record(right).await?);
        assert_eq!(seen(&left), seen(&right), "round {round}");
        assert_eq!((left.owner(), left.locked_until(), left.crashes()), (None, None, round));
    }
    assert_eq!((one.state(left).await?, one.state(acked.seq()).await?), (State::Dead, State::Done));
    other.close().await;
    Ok(())
}

async fn an_expire_by_the_procedure_is_an_expire(stage: &Stage<Mssql>) -> Verdict {
    let other = stage.another("other").await?;
    let minute = std::time::Duration::from_secs(60);
    let message = || NewMessage::new("a", "").expires_after(minute);
    let _ = (stage.outbox.enqueue(message()).await?, other.outbox.enqueue(message()).await?);
    assert_eq!(call(stage, "expire", "").await?, [["0"]], "it is not late");
    stage.clock.advance(minute);
    assert_eq!(call(stage, "expire", "").await?, [["1"]]);
    let _ = other.outbox.queue().expire(10).await?;
    let (one, two) = (stage.side(Queue::Outbox).record(1).await?, other.side(Queue::Outbox).record(1).await?);
    assert_eq!(seen(&one), seen(&two));
    assert_eq!(one.state(), State::Expired);
    other.close().await;
    Ok(())
}

async fn what_the_library_refuses_they_refuse_too(stage: &Stage<Mssql>) -> Verdict {
    let (outbox, long, nobody) = (stage.table("outbox"), "x".repeat(256), uuid::Uuid::nil());
    let mut client = stage.client().await?;
    for wrong in [
        format!("enqueue N'{long}', N''"),
        "enqueue N'a ', N''".to_owned(),
        "enqueue N'a', N'', N''".to_owned(),
        format!("enqueue N'a', N'', N'{long}'"),
        format!("enqueue N'a', N'', @correlation_id = N'{long}'"),
        format!("enqueue N'a', N'', @message_id = '{nobody}'"),
        "enqueue N'a', N'', @max_attempts = 0".to_owned(),
        format!("claim '{nobody}'"),
        format!("ack '{nobody}', N'[]'"),
        format!("abandon '{nobody}', N'[]'"),
        format!("fail '{nobody}', N'[]'"),
    ] {
        assert!(client.say(&format!("EXEC {outbox}_{wrong}")).await.is_err(), "{wrong}");
    }
    assert_eq!(stage.side(Queue::Outbox).rows().await?, 0);
    Ok(())
}

/// What is granted on one of them stays.
async fn they_are_the_same_ones_after_the_schema_is_deployed_again(stage: &Stage<Mssql>) -> Verdict {
    let mut client = stage.client().await?;
    let verbs = ["enqueue", "claim", "ack", "abandon", "fail", "reap", "expire"];
    let number = |verb: &str| format!("OBJECT_ID(N'{}_{verb}', N'P')", stage.table("outbox"));
    let numbers = format!("SELECT {}", verbs.map(number).join(", "));
    let before = client.ask(&numbers).await?;
    assert!(before.concat().iter().all(|number| !number.is_empty()), "{before:?}");
    client.say(&postroom::mssql::MssqlStore::schema(&Mssql::tables(&stage.place, "outbox", "inbox")?)).await?;
    assert_eq!(client.ask(&numbers).await?, before);
    Ok(())
}

async fn they_take_part_in_the_callers_transaction(stage: &Stage<Mssql>) -> Verdict {
    let (one, _) = two(stage).await?;
    let (id, outbox) = (ids(stage, &[one.seq()]).await?, stage.table("outbox"));
    let mut client = stage.client().await?;
    for verb in ["ack", "abandon", "fail"] {
        let call = format!("EXEC {outbox}_{verb} {}", of(one.owner(), &id));
        client.say(&format!("BEGIN TRANSACTION; {call}; ROLLBACK")).await?;
        assert_eq!(stage.side(Queue::Outbox).state(one.seq()).await?, State::Leased, "{verb}");
    }
    client.say(&format!("BEGIN TRANSACTION; EXEC {outbox}_enqueue N'a', N'{{}}'; ROLLBACK")).await?;
    assert_eq!(stage.side(Queue::Outbox).rows().await?, 2);
    Ok(())
}
