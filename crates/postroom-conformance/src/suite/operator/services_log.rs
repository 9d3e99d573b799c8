//! The log lines of section 11.3 of the document, by level and field.

use postroom::queue::Queue;
use postroom::services::ReceiverOptions;
use postroom::sqlite::Sqlite;
use postroom::{HandlerError, NewMessage};
use tracing::Level;

use crate::capture::Line;
use crate::case::{Verdict, cases};
use crate::harness::{LEASE, START, Stage};
use crate::lines::{Http, Wired};
use crate::peer::{Letter, Peer};
use crate::script::Script;
use crate::services::TOPIC;

cases! { services_log:
    sqlite a_message_that_is_sent_is_told_with_its_destination_and_time ["SQM-11.3.1", "SQM-11.3.2"];
    sqlite a_send_that_fails_is_warned_of_with_its_count ["SQM-11.3.3"];
    sqlite a_message_that_is_given_up_is_an_error ["SQM-11.3.4"];
    sqlite a_message_that_is_processed_is_told_with_its_source_and_a_duplicate_is_warned_of [
        "SQM-11.3.5", "SQM-11.3.6"];
    sqlite a_request_that_cannot_be_verified_is_warned_of ["SQM-11.3.7"];
}

/// The lines that say this, of whatever store of the case.
fn lines(stage: &Stage<Sqlite>, message: &str) -> Vec<Line> {
    stage.setup.logs.saying(message)
}

/// The only line that says this, at that level.
fn one(stage: &Stage<Sqlite>, level: Level, message: &str) -> anyhow::Result<Line> {
    match &lines(stage, message)[..] {
        [line] if line.level == level => Ok(line.clone()),
        other => anyhow::bail!("not one line at {level}: {other:?}"),
    }
}

fn field<'l>(line: &'l Line, name: &str) -> &'l str {
    line.field(name).unwrap_or_default()
}

async fn a_message_that_is_sent_is_told_with_its_destination_and_time(stage: &Stage<Sqlite>) -> Verdict {
    let mut wired = Wired::<Http>::new(stage).await?;
    stage.setup.logs.listen();
    wired.receive(&Script::succeed(), ReceiverOptions::default()).await?;
    let (_, worker) = wired.send(|service| service)?;
    let message = NewMessage::new(TOPIC, "{}").to("inventory");
    let id = message.message_id().to_string();
    stage.outbox.enqueue(message).await?;
    wired.until("it is sent", |stats| stats.done == 1).await?;
    let enqueued: Vec<_> = lines(stage, "outbox: message enqueued");
    let enqueued = enqueued.iter().find(|line| field(line, "message_id") == id).cloned();
    let enqueued = enqueued.ok_or_else(|| anyhow::anyhow!("the enqueue is not told"))?;
    assert_eq!((enqueued.level, field(&enqueued, "destination")), (Level::INFO, "inventory"));
    assert_eq!(field(&enqueued, "topic"), TOPIC);
    let sent = one(stage, Level::INFO, "outbox: message sent")?;
    assert_eq!((field(&sent, "message_id"), field(&sent, "destination")), (id.as_str(), "inventory"));
    assert!(field(&sent, "ms").parse::<f64>().is_ok_and(|ms| ms > 0.0), "{sent:?}");
    wired.end(worker).await
}

/// Fails this often.
fn failing(times: usize) -> Script {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    Script::new(move |_| {
        let fails = calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < times;
        async move { if fails { Err(HandlerError::retry("no")) } else { Ok(None) } }
    })
}

/// Sends one message that its handler does not take.
async fn send_in_vain(stage: &Stage<Sqlite>, script: &Script, attempts: u32) -> anyhow::Result<String> {
    let mut wired = Wired::<Http>::new(stage).await?;
    stage.setup.logs.listen();
    wired.receive(script, ReceiverOptions::default()).await?;
    let (_, worker) = wired.send(|service| service)?;
    let message = NewMessage::new(TOPIC, "{}").to("inventory").max_attempts(attempts);
    let id = message.message_id().to_string();
    stage.outbox.enqueue(message).await?;
    wired.until("it is settled", |stats| stats.done + stats.dead == 1).await?;
    wired.end(worker).await?;
    Ok(id)
}

async fn a_send_that_fails_is_warned_of_with_its_count(stage: &Stage<Sqlite>) -> Verdict {
    let id = send_in_vain(stage, &failing(2), 6).await?;
    let warned = lines(stage, "outbox: send failed");
    let counts: Vec<_> =
        warned.iter().map(|line| (line.level, field(line, "retry"), field(line, "max_retries"))).collect();
    assert_eq!(counts, [(Level::WARN, "1", "5"), (Level::WARN, "2", "5")]);
    assert!(warned.iter().all(|line| field(line, "message_id") == id && !field(line, "error").is_empty()));
    Ok(())
}

async fn a_message_that_is_given_up_is_an_error(stage: &Stage<Sqlite>) -> Verdict {
    let id = send_in_vain(stage, &failing(9), 3).await?;
    let given_up = one(stage, Level::ERROR, "outbox: message permanently failed")?;
    assert_eq!((field(&given_up, "message_id"), field(&given_up, "max_retries")), (id.as_str(), "2"));
    assert_eq!((field(&given_up, "retries"), lines(stage, "outbox: send failed").len()), ("2", 2));
    let refused = stage.another("refused").await?;
    let script = Script::new(|_| async { Err(HandlerError::terminal("no such item")) });
    let id = send_in_vain(&refused, &script, 3).await?;
    let lines = lines(stage, "outbox: message permanently failed");
    let refusal = lines.iter().find(|line| field(line, "message_id") == id);
    assert!(refusal.is_some_and(|line| field(line, "error").contains("no such item")), "{lines:?}");
    refused.close().await;
    Ok(())
}

async fn a_message_that_is_processed_is_told_with_its_source_and_a_duplicate_is_warned_of(
    stage: &Stage<Sqlite>,
) -> Verdict {
    stage.setup.logs.listen();
    let script = Script::succeed();
    let (desk, letter) = (stage.desk(script.handlers(), ReceiverOptions::default())?, Letter::new(TOPIC));
    for message in ["inbox: message processed", "inbox: duplicate detected"] {
        desk.send(&letter).await?;
        let level = if message.contains("duplicate") { Level::WARN } else { Level::INFO };
        let line = one(stage, level, message)?;
        assert_eq!((field(&line, "source"), field(&line, "message_id")), ("orders", letter.id.to_string().as_str()));
        assert_eq!(field(&line, "store"), stage.place.name());
    }
    Ok(())
}

async fn a_request_that_cannot_be_verified_is_warned_of(stage: &Stage<Sqlite>) -> Verdict {
    stage.setup.logs.listen();
    let script = Script::succeed();
    let desk = stage.desk(script.handlers(), ReceiverOptions::default())?;
    let change = |change: fn(&mut Peer)| {
        let mut peer = desk.peer.clone();
        change(&mut peer);
        peer
    };
    let cases = [
        (change(|peer| peer.source = "mallory".into()), "unknown source"),
        (change(|peer| peer.key_id = "other".into()), "signature"),
        (change(|peer| peer.destination = "billing".into()), "destination"),
        (
            change(|peer| {
                peer.clock = postroom::clock::ManualClock::new(START.minus(11 * LEASE));
            }),
            "time",
        ),
    ];
    for (n, (peer, reason)) in cases.into_iter().enumerate() {
        let letter = Letter::new(TOPIC);
        assert_eq!(desk.ask(peer.request(&letter)?).await?.status, 401);
        let lines = lines(stage, "inbox: HMAC verification failed");
        let line = &lines[n];
        assert_eq!(
            (line.level, field(line, "reason"), field(line, "source")),
            (Level::WARN, reason, peer.source.as_str())
        );
        assert_eq!(field(line, "message_id"), letter.id.to_string());
    }
    assert_eq!(stage.side(Queue::Inbox).rows().await?, 0);
    Ok(())
}
