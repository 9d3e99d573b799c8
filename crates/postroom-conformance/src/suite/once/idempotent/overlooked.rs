//! PostgreSQL aborts a transaction at its first error, and takes its COMMIT for a ROLLBACK without a word.

use std::sync::Arc;

use postroom::idempotent::{IdempotentOptions, Marking, Once, Unhandled};
use postroom::postgres::Postgres;
use postroom::{Ctx, ErrorKind, HandlerResult, Message, NewMessage};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::{NEVER, delivery, forward, forwarded, handler, with};
use crate::case::{Verdict, cases};
use crate::harness::Stage;
use crate::script::{Script, play};

cases! { idempotent:
    postgres an_error_that_the_handler_overlooks_is_never_a_success [];
    postgres marked_before_handling_an_overlooked_error_runs_the_handler_once [];
    postgres an_error_that_a_service_overlooks_is_never_a_success [];
}

/// Has an effect and a failed statement, and says that all is well.
async fn overlooks(ctx: &mut Ctx<Postgres>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    ctx.enqueue(NewMessage::new("forwarded", "").due_at(NEVER)).await?;
    drop(sqlx::query("SELECT 1 / 0").execute(ctx.tx().await?).await);
    play(ctx, message).await
}

async fn an_error_that_the_handler_overlooks_is_never_a_success(stage: &Stage<Postgres>) -> Verdict {
    let (script, incoming) = (Script::succeed(), delivery()?);
    let consumer = handler::<Postgres>(&stage.store, "reserve", &script)?;
    let overlooked = consumer.run_message(incoming.clone(), overlooks).await;
    assert!(matches!(overlooked, Err(Unhandled::Store(error)) if error.kind() == ErrorKind::NotCommitted));
    assert_eq!(forwarded(stage).await?, 0);
    assert_eq!(consumer.run_message(incoming, forward::<Postgres>).await?, Once::Ran(None));
    assert_eq!(forwarded(stage).await?, 1);
    Ok(())
}

/// What it does elsewhere is worse twice than never.
async fn marked_before_handling_an_overlooked_error_runs_the_handler_once(stage: &Stage<Postgres>) -> Verdict {
    let (script, incoming) = (Script::succeed(), delivery()?);
    let options = IdempotentOptions::default().marking(Marking::before_handling());
    let consumer = with::<Postgres>(&stage.store, "charge", &script, options)?;
    assert!(consumer.run_message(incoming.clone(), overlooks).await.is_err());
    assert_eq!(consumer.run_message(incoming, overlooks).await?, Once::Duplicate);
    assert_eq!((script.count(), forwarded(stage).await?), (1, 0));
    Ok(())
}

async fn an_error_that_a_service_overlooks_is_never_a_success(stage: &Stage<Postgres>) -> Verdict {
    let consumer = handler::<Postgres>(&stage.store, "reserve", &Script::succeed())?;
    let service = service_fn(|admitted: postroom::idempotent::Admitted<Postgres, postroom::Incoming>| async move {
        let mut ctx = admitted.ctx.lock().await?;
        ctx.enqueue(NewMessage::new("forwarded", "").due_at(NEVER)).await?;
        drop(sqlx::query("SELECT 1 / 0").execute(ctx.tx().await?).await);
        Ok::<_, postroom::Error>(())
    });
    let mut service = postroom::idempotent::IdempotentLayer::new(consumer).layer(service);
    let overlooked = service.ready().await?.call(delivery()?).await;
    assert!(matches!(overlooked, Err(Unhandled::Store(error)) if error.kind() == ErrorKind::NotCommitted));
    assert_eq!(forwarded(stage).await?, 0);
    Ok(())
}
