//! All handlers of a set, made idempotent at once.

use std::sync::Arc;

use futures_util::future::join_all;
use postroom::idempotent::{IdempotentHandlers, IdempotentOptions, Once, Unhandled};
use postroom::operator::Filter;
use postroom::queue::Cause;
use postroom::sqlite::{BlockingCtx, Sqlite};
use postroom::{Ctx, ErrorKind, HandlerError, HandlerResult, Handlers, Message, NewMessage};

use super::{NEVER, fails_before, forward, forwarded};
use crate::case::{Verdict, cases};
use crate::harness::{Draft, Stage, Testable, refused};
use crate::script::{Script, play};

cases! { idempotent:
    worker every_handler_of_a_set_runs_once_for_each_message ["PLN-7.2", "PLN-8"];
    worker two_sets_handle_the_same_message_once_each [];
    worker a_handler_of_a_set_that_fails_is_run_again [];
    worker a_set_says_which_topics_it_does_not_handle [];
    worker the_options_of_a_set_are_those_of_each_handler [];
    sqlite blocking_handlers_of_a_set_run_once_and_are_rolled_back_with_their_mark [];
}

/// Three handlers: two topics, and whatever else comes.
fn handlers<B: Testable>(script: &Script) -> Handlers<B> {
    Handlers::new()
        .state(script.clone())
        .on_topic("order.placed", forward::<B>)
        .on_topic("order.cancelled", forward::<B>)
        .fallback(forward::<B>)
}

async fn every_handler_of_a_set_runs_once_for_each_message<B: Testable>(stage: &Stage<B>) -> Verdict {
    let script = Script::succeed();
    let set = IdempotentHandlers::new(stage.store.clone(), "stock", handlers::<B>(&script))?;
    let topics = ["order.placed", "order.cancelled", "order.lost"];
    let mut deliveries = Vec::new();
    for topic in topics {
        deliveries.extend([Draft::new(topic).incoming()?, Draft::new(topic).incoming()?]);
    }
    for _ in 0..3 {
        for once in join_all(deliveries.iter().map(|incoming| set.run(incoming.clone()))).await {
            once?;
        }
    }
    assert_eq!((script.count(), forwarded(stage).await?), (6, 6));
    for incoming in &deliveries {
        assert_eq!(set.run(incoming.clone()).await?, Once::Duplicate);
    }
    // The same id under another topic is another handler's.
    let draft = Draft::new("order.placed");
    set.run(draft.incoming()?).await?;
    let Some(other) = set.of("order.cancelled") else { anyhow::bail!("it has a handler") };
    assert_eq!(other.marked(&draft.key()?).await?, None);
    let Some(mine) = set.of("order.placed") else { anyhow::bail!("it has a handler") };
    assert_eq!(mine.marked(&draft.key()?).await?.as_ref().map(postroom::store::Marked::topic), Some("order.placed"));
    Ok(())
}

async fn two_sets_handle_the_same_message_once_each<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (script, incoming) = (Script::succeed(), Draft::new("order.placed").incoming()?);
    let sets: Vec<IdempotentHandlers<B>> = ["stock", "invoices"]
        .into_iter()
        .map(|name| IdempotentHandlers::new(stage.store.clone(), name, handlers::<B>(&script)))
        .collect::<postroom::Result<_>>()?;
    for _ in 0..2 {
        for set in &sets {
            set.clone().run(incoming.clone()).await?;
        }
    }
    assert_eq!((script.count(), forwarded(stage).await?), (2, 2));
    Ok(())
}

async fn a_handler_of_a_set_that_fails_is_run_again<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (script, incoming) = (fails_before(2), Draft::new("order.placed").incoming()?);
    let set = IdempotentHandlers::new(stage.store.clone(), "stock", handlers::<B>(&script))?;
    assert!(set.run(incoming.clone()).await.is_err());
    assert_eq!(forwarded(stage).await?, 0);
    assert_eq!(set.run(incoming.clone()).await?, Once::Ran(None));
    assert_eq!((set.run(incoming).await?, forwarded(stage).await?), (Once::Duplicate, 1));
    Ok(())
}

async fn a_set_says_which_topics_it_does_not_handle<B: Testable>(stage: &Stage<B>) -> Verdict {
    let set = Handlers::<B>::new().state(Script::succeed()).on_topic("order.placed", play::<B>);
    let set = IdempotentHandlers::new(stage.store.clone(), "stock", set)?;
    match set.run(Draft::new("order.lost").incoming()?).await {
        Err(Unhandled::Handler(failure)) => {
            assert_eq!((failure.cause(), failure.is_terminal()), (Cause::NoHandler, false));
            assert_eq!(failure.to_string(), "no handler for the topic order.lost");
        }
        other => anyhow::bail!("{other:?}"),
    }
    assert!(set.of("order.lost").is_none());
    let twice = Handlers::<B>::new().on_topic("a", play::<B>).on_topic("a", play::<B>);
    refused(
        IdempotentHandlers::new(stage.store.clone(), "stock", twice),
        ErrorKind::InvalidInput,
        "two handlers of a topic",
    )?;
    for name in ["", &"x".repeat(250)] {
        refused(
            IdempotentHandlers::new(stage.store.clone(), name, handlers::<B>(&Script::succeed())),
            ErrorKind::InvalidInput,
            name,
        )?;
    }
    Ok(())
}

async fn the_options_of_a_set_are_those_of_each_handler<B: Testable>(stage: &Stage<B>) -> Verdict {
    let script = fails_before(3);
    let options = IdempotentOptions::default().release_claim_on_error(false);
    let set = IdempotentHandlers::with(stage.store.clone(), "stock", handlers::<B>(&script), options)?;
    for topic in ["order.placed", "order.lost"] {
        let incoming = Draft::new(topic).incoming()?;
        assert!(set.run(incoming.clone()).await.is_err());
        assert_eq!(set.run(incoming).await?, Once::Duplicate, "the claim is kept");
    }
    assert_eq!(script.count(), 2);
    Ok(())
}

async fn blocking_handlers_of_a_set_run_once_and_are_rolled_back_with_their_mark(stage: &Stage<Sqlite>) -> Verdict {
    fn reserve(ctx: &mut BlockingCtx<'_>) -> HandlerResult<Option<String>> {
        ctx.enqueue(NewMessage::new("forwarded", "").due_at(NEVER))?;
        match ctx.message().payload.as_str() {
            "bad" => Err(HandlerError::terminal("never")),
            "worse" => std::panic::panic_any("out of cheese"),
            _ => Ok(Some(ctx.state::<String>()?.to_string())),
        }
    }
    async fn other(_: &mut Ctx<Sqlite>, _: Arc<Message>) -> HandlerResult<Option<String>> {
        Ok(None)
    }
    let set = Handlers::new().on_topic_blocking("order.placed", reserve).on_topic("other", other);
    let set = IdempotentHandlers::new(stage.store.clone(), "stock", set.state("shelf 7".to_owned()))?;
    for (payload, told) in [("bad", "never"), ("worse", "the handler panicked: out of cheese")] {
        let incoming = Draft::new("order.placed").payload(payload).incoming()?;
        for _ in 0..2 {
            let failed = set.run(incoming.clone()).await.err().map(|failed| failed.to_string());
            assert_eq!(failed.as_deref(), Some(told));
        }
    }
    assert_eq!(forwarded(stage).await?, 0);
    let incoming = Draft::new("order.placed").incoming()?;
    assert_eq!(set.run(incoming.clone()).await?, Once::Ran(Some("shelf 7".into())));
    assert_eq!((set.run(incoming).await?, forwarded(stage).await?), (Once::Duplicate, 1));
    assert_eq!(stage.outbox.queue().list(Filter::all()).await?.len(), 1);
    Ok(())
}
