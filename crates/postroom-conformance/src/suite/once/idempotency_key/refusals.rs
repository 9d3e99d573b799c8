//! Requests that are not handled, and responses that cannot be kept.

use std::time::Duration;

use http::{Method, StatusCode};
use postroom::Inbox;
use postroom::idempotent::IdempotencyKeyOptions;
use postroom::queue::Queue;

use super::api::{Api, Call};
use crate::case::{Verdict, cases};
use crate::harness::{Stage, Testable, soon};

cases! { idempotency_key:
    worker a_key_for_another_request_is_refused [];
    worker a_malformed_key_is_refused [];
    worker a_body_that_is_too_large_is_refused [];
    worker a_body_that_does_not_come_is_given_up [];
    worker a_response_that_cannot_be_kept_is_an_error_and_leaves_nothing [];
    worker what_takes_too_long_is_rolled_back [];
    worker a_route_without_the_layer_says_so [];
    worker what_an_operator_gave_up_is_refused [];
}

async fn a_key_for_another_request_is_refused<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default())?;
    api.send(Call::keyed("1")).await?;
    for other in [
        Call { body: "{ }", ..Call::keyed("1") },
        Call { path: "/other", ..Call::keyed("1") },
        Call { path: "/orders?page=2", ..Call::keyed("1") },
        Call { method: Method::PATCH, ..Call::keyed("1") },
    ] {
        let refused = api.send(other).await?;
        let title = "Idempotency-Key was used for another request";
        assert_eq!((refused.status, refused.title()?), (StatusCode::UNPROCESSABLE_ENTITY, title.into()));
    }
    assert_eq!((api.calls(), api.effects().await?), (1, 1));
    Ok(())
}

/// It would hold its place for ever.
async fn a_body_that_does_not_come_is_given_up<B: Testable>(stage: &Stage<B>) -> Verdict {
    let options = IdempotencyKeyOptions::default().timeout(Duration::from_millis(50)).in_flight(1);
    let api = Api::<B>::open(stage, options)?;
    let given_up = soon("it is given up", api.send(Call { stalls: true, ..Call::keyed("1") })).await??;
    assert_eq!((given_up.status, api.calls()), (StatusCode::REQUEST_TIMEOUT, 0));
    Ok(())
}

async fn a_malformed_key_is_refused<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default())?;
    for key in ["", "\"open", "two words", &"k".repeat(256)] {
        let refused = api.send(Call::keyed(key)).await?;
        assert_eq!(
            (refused.status, refused.title()?),
            (StatusCode::BAD_REQUEST, "Idempotency-Key is malformed".into())
        );
    }
    let twice = api.send(Call::keyed("1").header("idempotency-key", "2")).await?;
    assert_eq!((twice.status, api.calls()), (StatusCode::BAD_REQUEST, 0));
    assert_eq!(api.send(Call::keyed(&"k".repeat(255))).await?.status, StatusCode::CREATED);
    Ok(())
}

async fn a_body_that_is_too_large_is_refused<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default().request_max(4))?;
    let refused = api.send(Call { body: "12345", ..Call::keyed("1") }).await?;
    assert_eq!((refused.status, refused.title()?), (StatusCode::PAYLOAD_TOO_LARGE, "The body is too large".into()));
    assert_eq!(api.calls(), 0);
    assert_eq!(api.send(Call { body: "1234", ..Call::keyed("1") }).await?.status, StatusCode::CREATED);
    Ok(())
}

async fn a_response_that_cannot_be_kept_is_an_error_and_leaves_nothing<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default().response_max(1000))?;
    for path in ["/large", "/events"] {
        let refused = api.send(Call { path, ..Call::keyed(path) }).await?;
        assert_eq!(
            (refused.status, refused.title()?),
            (StatusCode::INTERNAL_SERVER_ERROR, "The response cannot be stored".into())
        );
    }
    assert_eq!((api.calls(), stage.side(Queue::Inbox).rows().await?), (2, 0));
    Ok(())
}

async fn what_takes_too_long_is_rolled_back<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default().timeout(Duration::from_millis(100)))?;
    api.before(|| Box::pin(std::future::pending()));
    let late = soon("it is answered", api.send(Call::keyed("1"))).await??;
    assert_eq!((late.status, late.title()?), (StatusCode::SERVICE_UNAVAILABLE, "The request took too long".into()));
    api.before(|| Box::pin(async {}));
    let again = soon("it is handled again", async {
        loop {
            // The database may still be undoing the first.
            let again = api.send(Call::keyed("1")).await?;
            if again.status != StatusCode::CONFLICT {
                return anyhow::Ok(again);
            }
        }
    });
    assert_eq!((again.await??.status, api.effects().await?), (StatusCode::CREATED, 1));
    Ok(())
}

async fn a_route_without_the_layer_says_so<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default())?;
    let refused = api.send(Call { path: "/bare", ..Call::keyed("1") }).await?;
    let title = "The service is not set up for Idempotency-Key";
    assert_eq!((refused.status, refused.title()?), (StatusCode::INTERNAL_SERVER_ERROR, title.into()));
    Ok(())
}

async fn what_an_operator_gave_up_is_refused<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default())?;
    let inbox: &Inbox = &stage.inbox;
    api.answer_once(StatusCode::INTERNAL_SERVER_ERROR);
    api.send(Call::keyed("1")).await?;
    api.send(Call::keyed("2")).await?;
    let records = inbox.queue().list(postroom::operator::Filter::all()).await?;
    let kept = crate::harness::readable(&records[0])?;
    let source = kept.source().unwrap_or_default();
    let key = postroom::InboxKey::new(source, "1")?;
    inbox.already_processed(&key).await?;
    assert!(inbox.mark_dead(&key, "abused").await?);
    let refused = api.send(Call::keyed("1")).await?;
    assert_eq!(
        (refused.status, refused.title()?),
        (StatusCode::UNPROCESSABLE_ENTITY, "Idempotency-Key is no longer valid".into())
    );
    Ok(())
}
