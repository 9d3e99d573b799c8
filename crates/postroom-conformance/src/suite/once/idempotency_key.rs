//! `Idempotency-Key`: a request is handled once, and a repeated request gets the same response.

mod api;
mod refusals;
mod twins;

use http::{Method, StatusCode};
use postroom::idempotent::{IdempotencyKeyLayer, IdempotencyKeyOptions};
use postroom::operator::Filter;
use postroom::sqlite::Sqlite;
use postroom::{ErrorKind, NewMessage, Outbox};

use crate::case::{Case, Verdict, cases};
use crate::harness::{Stage, Testable, refused};
use api::{Api, Call};

cases! { idempotency_key:
    worker a_request_that_is_repeated_is_given_the_same_response [];
    worker another_caller_has_keys_of_its_own [];
    worker a_scope_says_who_is_calling [];
    worker another_layer_has_keys_of_its_own [];
    worker a_response_that_says_not_now_is_not_kept [];
    worker a_refusal_of_the_handler_is_kept [];
    worker a_key_for_another_tenant_is_another_request [];
    worker what_nobody_serves_is_not_kept [];
    worker without_a_key_a_request_passes [];
    worker other_methods_pass [];
    worker options_are_checked [];
    sqlite a_handler_that_calls_its_own_store_is_told [];
}

/// With those about requests that are refused, and about the same one twice at the same time.
pub(super) const PROMISES: [&[Case]; 3] = [CASES, refusals::CASES, twins::CASES];

async fn a_request_that_is_repeated_is_given_the_same_response<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default())?;
    let first = api.send(Call::keyed("\"1\"")).await?;
    assert_eq!(
        (first.status, first.body.as_slice(), first.is_replayed()),
        (StatusCode::CREATED, &b"order 0 \xff"[..], false)
    );
    for key in ["\"1\"", "1"] {
        let again = api.send(Call::keyed(key)).await?;
        assert!(again.is_replayed());
        assert_eq!((again.status, &again.body), (first.status, &first.body));
        assert_eq!(
            (again.header("location"), again.header("content-type")),
            ("/orders/0", first.header("content-type"))
        );
        assert_eq!((first.header("set-cookie"), again.header("set-cookie")), ("session=1", ""));
    }
    assert_eq!((api.calls(), api.effects().await?), (1, 1));
    assert_eq!(api.send(Call::keyed("2")).await?.header("location"), "/orders/1");
    Ok(())
}

async fn another_caller_has_keys_of_its_own<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default())?;
    for (n, caller) in [None, Some("Bearer a"), Some("Bearer b")].into_iter().enumerate() {
        let call = || caller.map_or(Call::keyed("1"), |caller| Call::keyed("1").header("authorization", caller));
        let location = format!("/orders/{n}");
        assert_eq!(api.send(call()).await?.header("location"), location);
        assert_eq!(api.send(call()).await?.header("location"), location);
    }
    assert_eq!((api.calls(), api.effects().await?), (3, 3));
    Ok(())
}

async fn a_scope_says_who_is_calling<B: Testable>(stage: &Stage<B>) -> Verdict {
    let user = |request: &http::request::Parts| format!("{:?}", request.headers.get("x-user"));
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default().scope(user))?;
    for (user, token, location) in [("ann", "1", "/orders/0"), ("ann", "2", "/orders/0"), ("bob", "2", "/orders/1")] {
        let call = Call::keyed("1").header("x-user", user).header("authorization", token);
        assert_eq!(api.send(call).await?.header("location"), location, "{user}");
    }
    Ok(())
}

async fn another_layer_has_keys_of_its_own<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default())?;
    let other = api.named("other-api", IdempotencyKeyOptions::default())?;
    assert_eq!(api.send(Call::keyed("1")).await?.header("location"), "/orders/0");
    assert_eq!(other.send(Call::keyed("1")).await?.header("location"), "/orders/1");
    Ok(())
}

async fn a_response_that_says_not_now_is_not_kept<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default())?;
    for (n, status) in [500_u16, 502, 503, 408, 409, 425, 429].into_iter().enumerate() {
        let call = || Call::keyed(&n.to_string());
        api.answer_once(StatusCode::from_u16(status)?);
        let failed = api.send(call()).await?;
        assert_eq!((failed.status.as_u16(), api.effects().await?), (status, n), "nothing of it is stored");
        let again = api.send(call()).await?;
        assert_eq!((again.status, again.is_replayed()), (StatusCode::CREATED, false));
        assert!(api.send(call()).await?.is_replayed());
    }
    assert_eq!((api.calls(), api.effects().await?), (14, 7));
    Ok(())
}

async fn a_refusal_of_the_handler_is_kept<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default())?;
    api.answer_once(StatusCode::PAYMENT_REQUIRED);
    let first = api.send(Call::keyed("1")).await?;
    let again = api.send(Call::keyed("1")).await?;
    assert_eq!((first.status, again.status), (StatusCode::PAYMENT_REQUIRED, StatusCode::PAYMENT_REQUIRED));
    assert_eq!((again.is_replayed(), api.calls()), (true, 1));
    // What the handler wrote before it refused is undone.
    assert_eq!(api.effects().await?, 0);
    Ok(())
}

/// A nested router is shown only the rest of the path.
async fn a_key_for_another_tenant_is_another_request<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default())?;
    let of = |path| Call { path, ..Call::keyed("1") };
    assert_eq!(api.send(of("/tenants/1/orders")).await?.status, StatusCode::CREATED);
    assert!(api.send(of("/tenants/1/orders")).await?.is_replayed());
    assert_eq!(api.send(of("/tenants/2/orders")).await?.status, StatusCode::UNPROCESSABLE_ENTITY);
    Ok(())
}

async fn what_nobody_serves_is_not_kept<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default())?;
    for _ in 0..2 {
        let said = api.send(Call { path: "/nowhere", ..Call::keyed("1") }).await?;
        assert_eq!((said.status, said.is_replayed()), (StatusCode::NOT_FOUND, false));
    }
    assert_eq!(stage.inbox.queue().list(Filter::all()).await?.len(), 0);
    Ok(())
}

async fn without_a_key_a_request_passes<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default())?;
    let unkeyed = || Call { path: "/plain", ..Call::unkeyed() };
    for n in 0..2 {
        let passed = api.send(unkeyed()).await?;
        assert_eq!((passed.text(), passed.is_replayed()), (format!("plain {n}, without a transaction"), false));
    }
    let keyed = || Call { path: "/plain", ..Call::keyed("1") };
    assert_eq!(api.send(keyed()).await?.text(), "plain 2, in a transaction");
    assert_eq!(api.send(keyed()).await?.text(), "plain 2, in a transaction");
    let needed = api.send(Call::unkeyed()).await?;
    assert_eq!((needed.status, needed.title()?), (StatusCode::BAD_REQUEST, "Idempotency-Key is missing".into()));
    let required = Api::<B>::open(stage, IdempotencyKeyOptions::default().required(true))?;
    assert_eq!(required.send(unkeyed()).await?.title()?, "Idempotency-Key is missing");
    assert_eq!(required.calls(), 0);
    Ok(())
}

async fn other_methods_pass<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default().required(true))?;
    let put = || Call { method: Method::PUT, path: "/plain", ..Call::keyed("1") };
    assert_eq!((api.send(put()).await?.is_replayed(), api.send(put()).await?.is_replayed()), (false, false));
    let puts = Api::<B>::open(stage, IdempotencyKeyOptions::default().methods([Method::PUT]))?;
    assert_eq!((puts.send(put()).await?.is_replayed(), puts.send(put()).await?.is_replayed()), (false, true));
    Ok(())
}

async fn options_are_checked<B: Testable>(stage: &Stage<B>) -> Verdict {
    for name in ["", &"x".repeat(201)] {
        let layer = IdempotencyKeyLayer::<B>::new(stage.store.clone(), name);
        refused(layer, ErrorKind::InvalidInput, "a name")?;
    }
    let options = IdempotencyKeyOptions::default().timeout(std::time::Duration::ZERO);
    let layer = IdempotencyKeyLayer::<B>::with(stage.store.clone(), "a", options);
    refused(layer, ErrorKind::InvalidInput, "no time")
}

async fn a_handler_that_calls_its_own_store_is_told(stage: &Stage<Sqlite>) -> Verdict {
    let outbox = Outbox::new(stage.store.clone());
    let api = Api::<Sqlite>::open(stage, IdempotencyKeyOptions::default())?;
    api.before(move || {
        let outbox = outbox.clone();
        Box::pin(async move {
            let refused = outbox.enqueue(NewMessage::new("a", "")).await;
            assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::InsideHandler));
        })
    });
    assert_eq!(api.send(Call::keyed("1")).await?.status, StatusCode::CREATED);
    Ok(())
}
