//! Handlers that hold SQLite's writer.

use std::sync::Arc;
use std::time::Duration;

use postroom::idempotent::{Idempotent, Once, Unhandled};
use postroom::sqlite::Sqlite;
use postroom::{Ctx, ErrorKind, HandlerError, HandlerResult, InboxKey, Incoming, Message, NewMessage};
use tokio::time::Instant;

use super::{delivery, forward, forwarded, handler};
use crate::case::{Verdict, cases};
use crate::harness::{Draft, Stage, soon};
use crate::script::{Script, play};

cases! { idempotent:
    sqlite a_handler_that_calls_its_own_store_is_told [];
    sqlite a_handler_that_runs_another_on_its_own_store_is_told [];
    sqlite a_handler_that_holds_the_writer_too_long_is_rolled_back_and_not_tried_again_at_once [];
}

async fn calls_itself(ctx: &mut Ctx<Sqlite>, _: Arc<Message>) -> HandlerResult<ErrorKind> {
    let store = ctx.state::<postroom::sqlite::SqliteStore>()?;
    let refused = postroom::Outbox::new((*store).clone()).enqueue(NewMessage::new("a", "")).await;
    Ok(refused.err().map_or(ErrorKind::Database, |error| error.kind()))
}

async fn a_handler_that_calls_its_own_store_is_told(stage: &Stage<Sqlite>) -> Verdict {
    let consumer = Idempotent::<Sqlite>::new(stage.store.clone(), "reserve")?.state(stage.store.clone())?;
    let told = soon("it is told", consumer.run_message(delivery()?, calls_itself)).await??;
    assert_eq!(told, Once::Ran(ErrorKind::InsideHandler));
    Ok(())
}

async fn runs_another(ctx: &mut Ctx<Sqlite>, _: Arc<Message>) -> HandlerResult<ErrorKind> {
    let consumer = ctx.state::<Idempotent<Sqlite>>()?;
    let another = Incoming::new(InboxKey::new("orders", "another")?, "a", "");
    match consumer.run_message(another, play::<Sqlite>).await {
        Err(Unhandled::Store(error)) => Ok(error.kind()),
        other => Err(HandlerError::terminal(format_args!("{other:?}"))),
    }
}

async fn a_handler_that_runs_another_on_its_own_store_is_told(stage: &Stage<Sqlite>) -> Verdict {
    let inner = handler::<Sqlite>(&stage.store, "invoice", &Script::succeed())?;
    let consumer = Idempotent::<Sqlite>::new(stage.store.clone(), "reserve")?.state(inner)?;
    let told = soon("it is told", consumer.run_message(delivery()?, runs_another)).await??;
    assert_eq!(told, Once::Ran(ErrorKind::InsideHandler));
    Ok(())
}

async fn a_handler_that_holds_the_writer_too_long_is_rolled_back_and_not_tried_again_at_once(
    stage: &Stage<Sqlite>,
) -> Verdict {
    let script = Script::new(|call| async move {
        if call.message.payload == "slow" {
            // tidy: time itself, the writer is held for longer than it may be
            let over = Instant::now() + Duration::from_millis(5_300);
            tokio::time::interval_at(over, Duration::from_secs(1)).tick().await;
        }
        Ok(None)
    });
    let (consumer, draft) = (handler::<Sqlite>(&stage.store, "reserve", &script)?, Draft::new("a"));
    let late = consumer.run_message(draft.clone().payload("slow").incoming()?, forward::<Sqlite>).await;
    assert!(matches!(late, Err(Unhandled::Store(error)) if error.kind() == ErrorKind::NotCommitted));
    assert_eq!((script.count(), forwarded(stage).await?), (1, 0));
    assert_eq!(consumer.run_message(draft.incoming()?, forward::<Sqlite>).await?, Once::Ran(None));
    assert_eq!(forwarded(stage).await?, 1);
    Ok(())
}
