//! When a handler fails.

use std::time::Duration;

use postroom::queue::State;
use postroom::{HandlerError, RetryPolicy, WorkerOptions};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Stage, Testable, eventually};
use crate::script::Script;

cases! { retry:
    worker a_failed_message_is_tried_again_later ["OBX-056", "IBX-075"];
    worker the_pause_doubles_up_to_a_minute ["OBX-061", "OBX-062", "IBX-080", "IBX-081"];
    worker a_policy_can_be_chosen ["OBX-063", "IBX-082", "SQM-3.5"];
    worker the_tenth_failure_ends_a_message ["OBX-064", "OBX-065", "IBX-083", "IBX-084", "API-10.3.1"];
    worker a_policy_ends_a_message_sooner ["OBX-065", "IBX-084"];
    worker a_message_can_limit_its_own_attempts ["OBX-064", "IBX-083"];
    worker a_terminal_error_ends_a_message_at_once ["OBX-056", "IBX-075"];
    worker a_handler_can_choose_the_pause [];
    worker a_panic_is_a_failed_attempt ["OBX-056", "IBX-075"];
    worker a_failure_holds_up_nobody_else [];
    worker a_handler_knows_the_attempt [];
}

async fn failing_once<B: Testable>(stage: &Stage<B>, script: &Script, options: WorkerOptions) -> anyhow::Result<()> {
    for side in stage.sides() {
        let worker = stage.work(side.queue, script, options.clone());
        let seq = side.add("a").await?;
        let counted = || async move { Ok(side.record(seq).await?.attempts() == 1) };
        eventually("the failure is counted", counted).await?;
        worker.stop().await?;
    }
    Ok(())
}

async fn a_failed_message_is_tried_again_later<B: Testable>(stage: &Stage<B>) -> Verdict {
    let script =
        Script::new(
            |call| async move { if call.attempt == 1 { Err(HandlerError::retry("not yet")) } else { Ok(None) } },
        );
    for side in stage.sides() {
        let worker = stage.work(side.queue, &script, WorkerOptions::default());
        let seq = side.add("a").await?;
        let failed = || async move { Ok(side.record(seq).await?.attempts() == 1) };
        eventually("the first attempt fails", failed).await?;
        let record = side.record(seq).await?;
        assert_eq!((record.state(), record.last_error()), (State::Ready, Some("not yet")));
        stage.advance(Duration::from_secs(2));
        let done = || async move { Ok(side.state(seq).await? == State::Done) };
        eventually("the second attempt succeeds", done).await?;
        worker.stop().await?;
    }
    assert_eq!(script.count(), 4);
    Ok(())
}

async fn the_pause_doubles_up_to_a_minute<B: Testable>(stage: &Stage<B>) -> Verdict {
    let script = Script::new(|_| async { Err(HandlerError::retry("no")) });
    for side in stage.sides() {
        let worker = stage.work(side.queue, &script, WorkerOptions::default());
        let seq = side.add("a").await?;
        for (attempt, seconds) in (1..).zip([2, 4, 8, 16, 32, 60, 60]) {
            let failed = || async move { Ok(side.record(seq).await?.attempts() == attempt) };
            eventually("the attempt fails", failed).await?;
            let record = side.record(seq).await?;
            assert_eq!(record.next_attempt_at(), Some(stage.now().plus(Duration::from_secs(seconds))));
            stage.advance(Duration::from_secs(seconds));
        }
        worker.stop().await?;
    }
    Ok(())
}

async fn a_policy_can_be_chosen<B: Testable>(stage: &Stage<B>) -> Verdict {
    let policy = RetryPolicy::exponential(Duration::from_secs(7), Duration::from_secs(7), Duration::ZERO, 99)?;
    let script = Script::new(|_| async { Err(HandlerError::retry("no")) });
    failing_once(stage, &script, WorkerOptions::default().retry(policy)).await?;
    for side in stage.sides() {
        let record = side.record(1).await?;
        assert_eq!(record.next_attempt_at(), Some(stage.now().plus(Duration::from_secs(7))));
    }
    Ok(())
}

/// Fails a message until it is dead; returns how many attempts that took.
async fn attempts_until_dead<B: Testable>(
    stage: &Stage<B>,
    draft: &Draft,
    options: WorkerOptions,
) -> anyhow::Result<Vec<u32>> {
    let script = Script::new(|call| async move { Err(HandlerError::retry(format!("failure {}", call.attempt))) });
    let mut counts = Vec::new();
    for side in stage.sides() {
        let worker = stage.work(side.queue, &script, options.clone());
        let seq = side.put(draft).await?;
        let dead = || async move {
            stage.skip_pause(side.queue).await?;
            Ok(side.state(seq).await? == State::Dead)
        };
        eventually("the message is given up", dead).await?;
        worker.stop().await?;
        let record = side.record(seq).await?;
        assert_eq!(record.last_error(), Some(format!("failure {}", record.attempts()).as_str()));
        counts.push(record.attempts());
    }
    assert_eq!(script.count(), counts.iter().sum::<u32>() as usize, "it was called again after its death");
    Ok(counts)
}

async fn the_tenth_failure_ends_a_message<B: Testable>(stage: &Stage<B>) -> Verdict {
    assert_eq!(attempts_until_dead(stage, &Draft::new("a"), WorkerOptions::default()).await?, [10, 10]);
    Ok(())
}

async fn a_policy_ends_a_message_sooner<B: Testable>(stage: &Stage<B>) -> Verdict {
    let policy = RetryPolicy::exponential(Duration::from_secs(1), Duration::from_secs(1), Duration::ZERO, 3)?;
    let options = WorkerOptions::default().retry(policy);
    assert_eq!(attempts_until_dead(stage, &Draft::new("a"), options).await?, [3, 3]);
    Ok(())
}

async fn a_message_can_limit_its_own_attempts<B: Testable>(stage: &Stage<B>) -> Verdict {
    let draft = Draft::new("a").max_attempts(2);
    assert_eq!(attempts_until_dead(stage, &draft, WorkerOptions::default()).await?, [2, 2]);
    Ok(())
}

async fn a_terminal_error_ends_a_message_at_once<B: Testable>(stage: &Stage<B>) -> Verdict {
    let script = Script::new(|_| async { Err(HandlerError::terminal("no such order")) });
    failing_once(stage, &script, WorkerOptions::default()).await?;
    for side in stage.sides() {
        let record = side.record(1).await?;
        assert_eq!((record.state(), record.last_error()), (State::Dead, Some("no such order")));
    }
    Ok(())
}

async fn a_handler_can_choose_the_pause<B: Testable>(stage: &Stage<B>) -> Verdict {
    let script = Script::new(|_| async { Err(HandlerError::retry_after(Duration::from_secs(123), "busy")) });
    failing_once(stage, &script, WorkerOptions::default()).await?;
    for side in stage.sides() {
        let record = side.record(1).await?;
        assert_eq!(record.next_attempt_at(), Some(stage.now().plus(Duration::from_secs(123))));
    }
    Ok(())
}

async fn a_panic_is_a_failed_attempt<B: Testable>(stage: &Stage<B>) -> Verdict {
    let script = Script::new(|_| async { std::panic::panic_any("out of cheese") });
    failing_once(stage, &script, WorkerOptions::default()).await?;
    for side in stage.sides() {
        let record = side.record(1).await?;
        assert_eq!((record.state(), record.crashes()), (State::Ready, 0));
        assert!(record.last_error().is_some_and(|error| error.contains("out of cheese")));
        // The store lives on.
        side.add("b").await?;
    }
    Ok(())
}

async fn a_failure_holds_up_nobody_else<B: Testable>(stage: &Stage<B>) -> Verdict {
    let script = Script::new(|call| async move {
        if call.message.topic == "bad" { Err(HandlerError::retry("no")) } else { Ok(None) }
    });
    for side in stage.sides() {
        let worker = stage.work(side.queue, &script, WorkerOptions::default());
        side.add("bad").await?;
        side.add_many("good", 30).await?;
        side.add("bad").await?;
        eventually("the good ones are done", || async move { Ok(side.verbs().stats().await?.done == 30) }).await?;
        worker.stop().await?;
    }
    Ok(())
}

async fn a_handler_knows_the_attempt<B: Testable>(stage: &Stage<B>) -> Verdict {
    let script = Script::new(|call| async move {
        if call.attempt < 3 { Err(HandlerError::retry(format!("attempt {}", call.attempt))) } else { Ok(None) }
    });
    for side in stage.sides() {
        let worker = stage.work(side.queue, &script, WorkerOptions::default());
        let seq = side.add("a").await?;
        let done = || async move {
            stage.skip_pause(side.queue).await?;
            Ok(side.state(seq).await? == State::Done)
        };
        eventually("the third attempt succeeds", done).await?;
        worker.stop().await?;
        let last = script.calls().pop().ok_or_else(|| anyhow::anyhow!("it was never called"))?;
        assert_eq!((last.attempts, last.last_error.as_deref()), (2, Some("attempt 2")));
    }
    Ok(())
}
