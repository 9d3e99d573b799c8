//! When marks are put, for how long they are kept, and who puts none.

use std::time::Duration;

use postroom::ErrorKind;
use postroom::idempotent::{Idempotent, IdempotentOptions, Marking, Once};

use super::{delivery, fails_before, forward, forwarded, handler, one_of_64, with};
use crate::case::{Verdict, cases};
use crate::harness::{Draft, Stage, Testable, eventually, refused};
use crate::script::{Script, play};

cases! { idempotent:
    worker marked_before_handling_a_failure_keeps_the_claim ["PLN-6.3", "PLN-9.4"];
    worker marked_before_handling_a_failure_can_release_the_claim ["PLN-3.2", "PLN-6.3", "PLN-9.3"];
    worker marked_before_handling_one_of_64_is_handled ["PLN-0.3", "PLN-9.2", "PLN-9.7"];
    worker switched_off_every_delivery_is_handled ["PLN-6.2"];
    worker only_old_marks_of_the_same_handler_are_purged ["PLN-5.1", "PLN-6.1", "PLN-9.6"];
    worker old_marks_are_purged_after_a_run ["PLN-1.1", "PLN-5.1", "PLN-7.1", "PLN-9.5"];
    worker old_marks_are_purged_again_and_again ["PLN-5.2", "PLN-6.4"];
    worker a_mark_tells_the_topic_of_its_message_and_when_it_was_put ["PLN-1.2"];
    worker names_and_retention_are_checked ["PLN-6.1"];
}

async fn marked_before_handling_a_failure_keeps_the_claim<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (script, incoming) = (fails_before(2), delivery()?);
    let options = IdempotentOptions::default().marking(Marking::before_handling());
    let consumer = with::<B>(&stage.store, "reserve", &script, options)?;
    assert!(consumer.run_message(incoming.clone(), forward::<B>).await.is_err());
    assert_eq!(consumer.run_message(incoming, forward::<B>).await?, Once::Duplicate);
    assert_eq!((script.count(), forwarded(stage).await?), (1, 0));
    Ok(())
}

async fn marked_before_handling_a_failure_can_release_the_claim<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (script, incoming) = (fails_before(2), delivery()?);
    let options = IdempotentOptions::default().release_claim_on_error(true);
    let consumer = with::<B>(&stage.store, "reserve", &script, options)?;
    assert!(consumer.run_message(incoming.clone(), forward::<B>).await.is_err());
    assert_eq!(consumer.run_message(incoming.clone(), forward::<B>).await?, Once::Ran(None));
    assert_eq!(consumer.run_message(incoming, forward::<B>).await?, Once::Duplicate);
    assert_eq!((script.count(), forwarded(stage).await?), (2, 1));
    Ok(())
}

async fn marked_before_handling_one_of_64_is_handled<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (script, other) = (Script::succeed(), B::open_again(&stage.store, &stage.place).await?);
    let options = IdempotentOptions::default().marking(Marking::before_handling());
    let here = with(&stage.store, "reserve", &script, options.clone())?;
    one_of_64(stage, &[here, with(&other, "reserve", &script, options)?], &script).await
}

async fn switched_off_every_delivery_is_handled<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (script, incoming) = (Script::succeed(), delivery()?);
    let consumer = with::<B>(&stage.store, "reserve", &script, IdempotentOptions::default().enabled(false))?;
    for _ in 0..3 {
        assert_eq!(consumer.run_message(incoming.clone(), forward::<B>).await?, Once::Ran(None));
    }
    assert_eq!((script.count(), forwarded(stage).await?), (3, 3));
    let switched_on = handler::<B>(&stage.store, "reserve", &script)?;
    assert_eq!(switched_on.run_message(incoming, forward::<B>).await?, Once::Ran(None), "no mark was left");
    Ok(())
}

async fn only_old_marks_of_the_same_handler_are_purged<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (script, day) = (Script::succeed(), Duration::from_secs(24 * 3600));
    // After their first run they look for old marks by themselves: there are none so old.
    let for_long = IdempotentOptions::default().retention(365 * day);
    let reserve = with::<B>(&stage.store, "reserve", &script, for_long.clone())?;
    let invoice = with::<B>(&stage.store, "invoice", &script, for_long)?;
    let (old, young) = (delivery()?, delivery()?);
    for incoming in [&old, &young] {
        for consumer in [&reserve, &invoice] {
            consumer.run_message(incoming.clone(), play::<B>).await?;
        }
        stage.clock.advance(4 * day);
    }
    let purging = handler::<B>(&stage.store, "reserve", &script)?;
    assert_eq!((purging.purge().await?, purging.purge().await?), (1, 0));
    assert!(reserve.run_message(young, play::<B>).await?.is_duplicate());
    assert!(invoice.run_message(old.clone(), play::<B>).await?.is_duplicate());
    assert!(!reserve.run_message(old, play::<B>).await?.is_duplicate(), "it is new again");
    Ok(())
}

async fn old_marks_are_purged_after_a_run<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (script, day) = (Script::succeed(), Duration::from_secs(24 * 3600));
    let options = IdempotentOptions::default().retention(365 * day);
    let (early, old) = (with::<B>(&stage.store, "reserve", &script, options)?, delivery()?);
    early.run_message(old.clone(), play::<B>).await?;
    stage.clock.advance(8 * day);
    let late = handler::<B>(&stage.store, "reserve", &script)?;
    late.run_message(delivery()?, play::<B>).await?;
    eventually("the old mark is gone", || async {
        Ok(!early.run_message(old.clone(), play::<B>).await?.is_duplicate())
    })
    .await
}

async fn old_marks_are_purged_again_and_again<B: Testable>(stage: &Stage<B>) -> Verdict {
    let options = IdempotentOptions::default().cleanup_interval(Duration::from_secs(1));
    let consumer = with::<B>(&stage.store, "reserve", &Script::succeed(), options)?;
    for _ in 0..2 {
        let old = delivery()?;
        consumer.run_message(old.clone(), play::<B>).await?;
        stage.clock.advance(Duration::from_secs(8 * 24 * 3600));
        eventually("the old mark is gone", || async {
            consumer.run_message(delivery()?, play::<B>).await?;
            Ok(consumer.marked(old.key()).await?.is_none())
        })
        .await?;
    }
    Ok(())
}

async fn a_mark_tells_the_topic_of_its_message_and_when_it_was_put<B: Testable>(stage: &Stage<B>) -> Verdict {
    for marking in [Marking::InTransaction, Marking::before_handling()] {
        let options = IdempotentOptions::default().marking(marking);
        let consumer = with::<B>(&stage.store, "reserve", &fails_before(2), options.clone())?;
        let (failed, handled) = (delivery()?, Draft::new("grö\u{df}e.\u{1f4ee}").incoming()?);
        assert!(consumer.run_message(failed.clone(), play::<B>).await.is_err());
        let is_kept = consumer.marked(failed.key()).await?.is_some();
        assert_eq!(is_kept, marking != Marking::InTransaction, "{marking:?}");
        assert_eq!(consumer.marked(handled.key()).await?, None);
        consumer.run_message(handled.clone(), play::<B>).await?;
        let Some(marked) = consumer.marked(handled.key()).await? else { anyhow::bail!("it is not marked") };
        assert_eq!(marked.topic(), "grö\u{df}e.\u{1f4ee}");
        assert_eq!(marked.at(), stage.clock.now());
        let other = with::<B>(&stage.store, "invoice", &Script::succeed(), options)?;
        assert_eq!(other.marked(handled.key()).await?, None, "each handler has its own");
        stage.clock.advance(Duration::from_secs(1));
    }
    Ok(())
}

async fn names_and_retention_are_checked<B: Testable>(stage: &Stage<B>) -> Verdict {
    for name in ["", "trailing ", &"x".repeat(256), "a\0b"] {
        refused(Idempotent::<B>::new(stage.store.clone(), name), ErrorKind::InvalidInput, name)?;
    }
    let usual = IdempotentOptions::default;
    for (options, what) in [
        (usual().retention(Duration::ZERO), "no retention"),
        (usual().retention(Duration::MAX), "a retention without end"),
        (usual().cleanup_interval(Duration::ZERO), "no interval"),
        (usual().cleanup_interval(Duration::MAX), "an interval without end"),
    ] {
        refused(Idempotent::<B>::with(stage.store.clone(), "a", options), ErrorKind::InvalidInput, what)?;
    }
    Ok(())
}
