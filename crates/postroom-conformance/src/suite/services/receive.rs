//! A message that arrives at a receiver: its row, the handler's effects and the answer are stored together, or none of
//! them; a duplicate gets the stored answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postroom::HandlerError;
use postroom::queue::State;
use postroom::services::ReceiverOptions;

use crate::case::{Verdict, cases};
use crate::harness::{Stage, soon};
use crate::peer::Letter;
use crate::script::{Answer, Script};
use crate::services::{Receives, TOPIC, Way, asynchronous};

cases! { receive:
    worker a_first_delivery_is_handled_once_and_answered ["IBX-001", "SQM-4.1.1", "SQM-4.2.2"];
    worker a_duplicate_gets_the_stored_answer_byte_for_byte ["SQM-1.2", "SQM-4.2.1", "SQM-4.3.2"];
    worker an_answer_of_nothing_is_kept_too ["SQM-4.2.1"];
    worker an_answer_that_is_no_json_is_kept_as_text [];
    worker the_same_id_with_other_content_is_refused_and_never_answered ["API-10.2"];
    worker the_same_id_of_another_topic_is_refused [];
    worker a_handler_that_fails_leaves_nothing_and_can_be_tried_again ["SQM-4.2.3"];
    worker a_handler_that_panics_leaves_nothing_and_can_be_tried_again ["SQM-4.2.2"];
    worker a_handler_that_is_told_in_time_can_still_answer [];
    worker a_handler_that_takes_too_long_leaves_nothing_and_can_be_tried_again [];
    worker a_handler_may_say_when_to_come_back [];
    worker a_refusal_for_good_is_kept_and_said_again_without_a_run [];
    worker a_topic_without_a_handler_is_not_found_and_not_stored [];
    worker a_message_that_cannot_be_read_is_refused_with_a_receipt [];
    worker the_message_reaches_its_handler_whole ["SQM-4.1.1", "SQM-5.1"];
}

/// Runs a case with every kind of handler, each on its own store.
macro_rules! each_way {
    ($stage:ident, |$fresh:ident, $way:ident| $body:block) => {
        for (n, $way) in B::WAYS.iter().copied().enumerate() {
            let $fresh = $stage.another(&n.to_string()).await?;
            let verdict: Verdict = async { $body }.await;
            $fresh.close().await;
            verdict?;
        }
        return Ok(());
    };
}

fn answering(answer: &'static str) -> Script {
    Script::new(move |_| async move { Ok(Some(answer.into())) })
}

async fn a_first_delivery_is_handled_once_and_answered<B: Receives>(stage: &Stage<B>) -> Verdict {
    each_way!(stage, |fresh, way| {
        let script = answering(r#"{"shelf":7}"#);
        let desk = fresh.desk_playing(way, &script)?;
        let letter = Letter::new(TOPIC);
        let said = desk.send(&letter).await?;
        assert_eq!(&said.body[..], br#"{"acknowledged":true,"duplicateDetected":false,"payload":{"shelf":7}}"#);
        assert_eq!((said.status, said.retry_after()), (200, None));
        assert_eq!(fresh.effects_of_messages().await?, [letter.id.to_string()]);
        let row = fresh.row(&desk, &letter).await?.expect("it is stored");
        assert_eq!((row.state(), row.response()), (State::Done, Some(r#"{"shelf":7}"#)));
        assert_eq!((script.count(), fresh.side(postroom::queue::Queue::Inbox).rows().await?), (1, 1));
        Ok(())
    });
}

async fn a_duplicate_gets_the_stored_answer_byte_for_byte<B: Receives>(stage: &Stage<B>) -> Verdict {
    each_way!(stage, |fresh, way| {
        let script = answering(r#"{"b" : 1,  "a":[1e400, "ü☃", 1.0]}"#);
        let (desk, letter) = (fresh.desk_playing(way, &script)?, Letter::new(TOPIC));
        let first = desk.send(&letter).await?;
        fresh.clock.advance(Duration::from_secs(3600));
        let second = desk.send(&letter).await?;
        let expected = String::from_utf8(first.body.to_vec())?.replace("Detected\":false", "Detected\":true");
        assert_eq!(String::from_utf8(second.body.to_vec())?, expected);
        assert!(expected.contains(r#"{"b" : 1,  "a":[1e400, "ü☃", 1.0]}"#), "{expected}");
        assert_eq!((second.status, script.count(), fresh.effects_of_messages().await?.len()), (200, 1, 1));
        // Another program with the same store gives the same answer.
        let again = B::open_again(&fresh.store, &fresh.place).await?;
        let desk = crate::services::Desk::open(again, desk.peer, way(&script), ReceiverOptions::default())?;
        assert_eq!((desk.send(&letter).await?.body, script.count()), (second.body, 1));
        Ok(())
    });
}

async fn an_answer_of_nothing_is_kept_too<B: Receives>(stage: &Stage<B>) -> Verdict {
    each_way!(stage, |fresh, way| {
        let script = Script::succeed();
        let (desk, letter) = (fresh.desk_playing(way, &script)?, Letter::new(TOPIC));
        let (first, second) = (desk.send(&letter).await?, desk.send(&letter).await?);
        assert_eq!((first.is_duplicate(), second.is_duplicate()), (false, true));
        assert_eq!((first.payload(), second.payload(), script.count()), (().into(), ().into(), 1));
        Ok(())
    });
}

async fn an_answer_that_is_no_json_is_kept_as_text<B: Receives>(stage: &Stage<B>) -> Verdict {
    each_way!(stage, |fresh, way| {
        let (desk, letter) = (fresh.desk_playing(way, &answering("on \"shelf\" 7"))?, Letter::new(TOPIC));
        for _ in 0..2 {
            assert_eq!(desk.send(&letter).await?.payload(), "on \"shelf\" 7");
        }
        Ok(())
    });
}

async fn the_same_id_with_other_content_is_refused_and_never_answered<B: Receives>(stage: &Stage<B>) -> Verdict {
    each_way!(stage, |fresh, way| {
        let script = answering("\"secret\"");
        let (desk, letter) = (fresh.desk_playing(way, &script)?, Letter::new(TOPIC));
        desk.send(&letter).await?;
        let other = desk.send(&letter.saying("{\"order\":8}")).await?;
        assert_eq!((other.status, script.count()), (422, 1));
        assert!(!String::from_utf8(other.body.to_vec())?.contains("secret"));
        assert_eq!(desk.send(&letter).await?.payload(), "secret", "the first one still has its answer");
        Ok(())
    });
}

async fn the_same_id_of_another_topic_is_refused<B: Receives>(stage: &Stage<B>) -> Verdict {
    let script = Script::succeed();
    let handlers = asynchronous::<B>(&script).on_topic("stock.release", crate::script::play::<B>);
    let desk = stage.desk(handlers, ReceiverOptions::default())?;
    let letter = Letter::new(TOPIC);
    assert_eq!(desk.send(&letter).await?.status, 200);
    let other = Letter { topic: "stock.release".into(), ..letter };
    assert_eq!((desk.send(&other).await?.status, script.count()), (422, 1));
    Ok(())
}

/// Fails as requested the first time, and succeeds afterwards.
async fn fails_then_succeeds<B: Receives>(
    stage: &Stage<B>,
    ways: &[Way<B>],
    options: ReceiverOptions,
    fail: fn() -> Answer,
) -> Verdict {
    for (n, way) in ways.iter().enumerate() {
        let fresh = stage.another(&n.to_string()).await?;
        let is_first = Arc::new(AtomicBool::new(true));
        let script = Script::new(move |call| {
            let fails = is_first.swap(false, Ordering::SeqCst);
            async move {
                match fails {
                    true if call.message.payload == "\"slow\"" => std::future::pending().await,
                    true => fail(),
                    false => Ok(Some("\"done\"".into())),
                }
            }
        });
        let desk = fresh.desk(way(&script), options.clone())?;
        let payload = if fail().is_ok() { "\"slow\"" } else { "{}" };
        let letter = Letter::new(TOPIC).saying(payload);
        let failed = desk.send(&letter).await?;
        assert_eq!((failed.status, failed.payload()), (500, ().into()), "{failed:?}");
        assert!(!failed.error().contains("disk"), "a handler's error is for the log: {}", failed.error());
        assert!(fresh.row(&desk, &letter).await?.is_none(), "the row is rolled back");
        assert!(fresh.effects_of_messages().await?.is_empty(), "effects are rolled back");
        let retried = desk.send(&letter).await?;
        assert_eq!((retried.status, retried.is_duplicate(), script.count()), (200, false, 2));
        assert_eq!(fresh.effects_of_messages().await?.len(), 1);
        fresh.close().await;
    }
    Ok(())
}

async fn a_handler_that_fails_leaves_nothing_and_can_be_tried_again<B: Receives>(stage: &Stage<B>) -> Verdict {
    let options = ReceiverOptions::default();
    fails_then_succeeds(stage, B::WAYS, options, || Err(HandlerError::retry("disk on fire"))).await
}

async fn a_handler_that_panics_leaves_nothing_and_can_be_tried_again<B: Receives>(stage: &Stage<B>) -> Verdict {
    each_way!(stage, |fresh, way| {
        let script = Script::new(|call| async move {
            if call.message.payload == "\"bad\"" {
                std::panic::panic_any("disk on fire");
            }
            Ok(None)
        });
        let desk = fresh.desk_playing(way, &script)?;
        let (bad, good) = (Letter::new(TOPIC).saying("\"bad\""), Letter::new(TOPIC));
        for _ in 0..2 {
            let failed = desk.send(&bad).await?;
            assert_eq!((failed.status, failed.error().contains("disk")), (500, false), "{}", failed.error());
        }
        assert!(fresh.row(&desk, &bad).await?.is_none() && fresh.effects_of_messages().await?.is_empty());
        assert_eq!((desk.send(&good).await?.status, script.count()), (200, 3));
        assert_eq!(fresh.effects_of_messages().await?, [good.id.to_string()]);
        Ok(())
    });
}

async fn a_handler_that_takes_too_long_leaves_nothing_and_can_be_tried_again<B: Receives>(stage: &Stage<B>) -> Verdict {
    let options = ReceiverOptions::default().handler_timeout(Duration::from_millis(50));
    fails_then_succeeds(stage, &[asynchronous::<B>], options, || Ok(None)).await
}

/// Its time is almost over: it hears so before it is dropped.
async fn a_handler_that_is_told_in_time_can_still_answer<B: Receives>(stage: &Stage<B>) -> Verdict {
    let script = Script::new(|call| async move {
        call.cancelled.await;
        Ok(Some("7".into()))
    });
    let options = ReceiverOptions::default().handler_timeout(Duration::from_secs(2));
    let (desk, letter) = (stage.desk(asynchronous::<B>(&script), options)?, Letter::new(TOPIC));
    let said = soon("it is answered", desk.send(&letter)).await??;
    assert_eq!((said.status, said.payload()), (200, 7.into()));
    Ok(())
}

async fn a_handler_may_say_when_to_come_back<B: Receives>(stage: &Stage<B>) -> Verdict {
    each_way!(stage, |fresh, way| {
        let later = Duration::from_millis(6500);
        let script = Script::new(move |_| async move { Err(HandlerError::retry_after(later, "not now")) });
        let (desk, letter) = (fresh.desk_playing(way, &script)?, Letter::new(TOPIC));
        let said = desk.send(&letter).await?;
        assert_eq!((said.status, said.retry_after()), (500, Some(Duration::from_secs(7))));
        assert!(fresh.row(&desk, &letter).await?.is_none());
        Ok(())
    });
}

async fn a_refusal_for_good_is_kept_and_said_again_without_a_run<B: Receives>(stage: &Stage<B>) -> Verdict {
    each_way!(stage, |fresh, way| {
        let script = Script::new(|_| async { Err(HandlerError::terminal("no such item")) });
        let (desk, letter) = (fresh.desk_playing(way, &script)?, Letter::new(TOPIC));
        let (first, second) = (desk.send(&letter).await?, desk.send(&letter).await?);
        assert_eq!((first.status, second.status, script.count()), (422, 422, 1));
        assert_eq!((first.body.clone(), first.error().as_str()), (second.body, "no such item"));
        assert!(fresh.effects_of_messages().await?.is_empty(), "effects are rolled back");
        let row = fresh.row(&desk, &letter).await?.expect("it is kept");
        assert_eq!((row.state(), row.last_error()), (State::Dead, Some("no such item")));
        assert_eq!(desk.send(&letter.saying("1")).await?.error(), "this id was used before with different content");
        Ok(())
    });
}

async fn a_topic_without_a_handler_is_not_found_and_not_stored<B: Receives>(stage: &Stage<B>) -> Verdict {
    let desk = stage.desk_playing(asynchronous::<B>, &Script::succeed())?;
    let letter = Letter::new("stock.burn");
    assert_eq!(desk.send(&letter).await?.status, 404);
    assert!(stage.row(&desk, &letter).await?.is_none());
    Ok(())
}

/// Only a receipt lets the sender give up at once.
async fn a_message_that_cannot_be_read_is_refused_with_a_receipt<B: Receives>(stage: &Stage<B>) -> Verdict {
    let script = Script::succeed();
    let desk = stage.desk_playing(asynchronous::<B>, &script)?;
    for payload in ["", "{", "{}}", "01"] {
        assert_eq!(desk.send(&Letter::new(TOPIC).saying(payload)).await?.status, 400, "{payload:?}");
    }
    assert_eq!(desk.send(&Letter { kind: "Event", ..Letter::new(TOPIC) }).await?.status, 400);
    assert_eq!(desk.send(&Letter::new("with blanks")).await?.status, 400);
    assert_eq!((script.count(), stage.side(postroom::queue::Queue::Inbox).rows().await?), (0, 0));
    Ok(())
}

async fn the_message_reaches_its_handler_whole<B: Receives>(stage: &Stage<B>) -> Verdict {
    each_way!(stage, |fresh, way| {
        let script = Script::succeed();
        let desk = fresh.desk_playing(way, &script)?;
        let mut letter = Letter::new(TOPIC).saying(r#"{"order" :  7, "big":1e400}"#);
        letter.correlation_id = Some("order-7".into());
        letter.headers.insert("tenant".into(), "acme".into());
        letter.headers.insert("rf-answer-to".into(), "mallory".into());
        assert_eq!(desk.send(&letter).await?.status, 200);
        let message = script.calls().remove(0);
        assert_eq!((message.topic.as_str(), message.payload.as_str()), (TOPIC, letter.payload.as_str()));
        assert_eq!((message.id(), message.source()), (letter.id.to_string(), Some("orders")));
        assert_eq!(
            (message.kind, message.correlation_id.as_deref()),
            (postroom::message::Kind::Command, Some("order-7"))
        );
        let headers: Vec<_> = message.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(headers, [("tenant", "acme")], "headers of the wire itself stay outside");
        Ok(())
    });
}
