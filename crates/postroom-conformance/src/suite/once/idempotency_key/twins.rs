//! The same request twice at the same time, clients that hang up, handlers that panic, commits without an answer.

use std::sync::Arc;

use http::StatusCode;
use postroom::idempotent::IdempotencyKeyOptions;
use postroom_testbed::Proxy;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::api::{Api, Call};
use crate::by_wire::ByWire;
use crate::case::{Verdict, cases};
use crate::harness::{Stage, Testable, eventually, soon};

cases! { idempotency_key:
    worker of_64_requests_at_once_one_is_handled [];
    worker of_64_requests_in_two_processes_one_is_handled [];
    worker while_the_first_is_handled_its_twin_is_told_to_come_back [];
    worker a_client_that_hangs_up_finds_the_response_when_it_asks_again [];
    worker a_panic_is_passed_on_and_rolled_back [];
    server a_commit_that_was_carried_out_is_answered_as_such [];
    server a_commit_that_was_not_carried_out_is_tried_again [];
}

async fn one_of_64<B: Testable>(apis: &[Api<B>]) -> Verdict {
    let mut sending = JoinSet::new();
    for n in 0..64 {
        let api = apis[n % apis.len()].clone();
        sending.spawn(async move { api.send(Call::keyed("1")).await });
    }
    let said: anyhow::Result<Vec<_>> = soon("all are answered", sending.join_all()).await?.into_iter().collect();
    let (told, given): (Vec<_>, Vec<_>) = said?.into_iter().partition(|said| said.status == StatusCode::CONFLICT);
    assert!(told.iter().all(|said| said.header("retry-after") == "1"));
    assert_eq!(given.iter().filter(|said| !said.is_replayed()).count(), 1);
    assert!(given.iter().all(|said| (said.status, said.header("location")) == (StatusCode::CREATED, "/orders/0")));
    assert!(given.iter().all(|said| said.body == given[0].body));
    assert!(apis[0].send(Call::keyed("1")).await?.is_replayed());
    assert_eq!((apis[0].calls(), apis[0].effects().await?), (1, 1));
    Ok(())
}

async fn of_64_requests_at_once_one_is_handled<B: Testable>(stage: &Stage<B>) -> Verdict {
    one_of_64(&[Api::<B>::open(stage, IdempotencyKeyOptions::default())?]).await
}

async fn of_64_requests_in_two_processes_one_is_handled<B: Testable>(stage: &Stage<B>) -> Verdict {
    let here = Api::<B>::open(stage, IdempotencyKeyOptions::default())?;
    let there = here.elsewhere(&B::open_again(&stage.store, &stage.place).await?)?;
    one_of_64(&[here, there]).await
}

/// Keeps every handler from its end until it may.
fn shut<B: Testable>(api: &Api<B>) -> (mpsc::UnboundedReceiver<()>, Arc<Semaphore>) {
    let (begin, begun) = mpsc::unbounded_channel();
    let open = Arc::new(Semaphore::new(0));
    let gate = open.clone();
    api.before(move || {
        let (begin, gate) = (begin.clone(), gate.clone());
        Box::pin(async move {
            begin.send(()).ok();
            if let Ok(permit) = gate.acquire().await {
                permit.forget();
            }
        })
    });
    (begun, open)
}

async fn while_the_first_is_handled_its_twin_is_told_to_come_back<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default())?;
    let (mut begun, open) = shut(&api);
    let (first, mut sending) = (api.clone(), JoinSet::new());
    sending.spawn(async move { first.send(Call::keyed("1")).await });
    soon("the first is being handled", begun.recv()).await?;
    let twin = soon("its twin is answered", api.send(Call::keyed("1"))).await??;
    assert_eq!((twin.status, twin.header("retry-after")), (StatusCode::CONFLICT, "1"));
    assert_eq!(twin.title()?, "A request with this Idempotency-Key is being handled");
    open.add_permits(1);
    let first = sending.join_all().await.remove(0)?;
    assert_eq!((first.status, api.calls()), (StatusCode::CREATED, 1));
    Ok(())
}

async fn a_client_that_hangs_up_finds_the_response_when_it_asks_again<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default())?;
    let (mut begun, open) = shut(&api);
    let (first, mut sending) = (api.clone(), JoinSet::new());
    sending.spawn(async move { first.send(Call::keyed("1")).await });
    soon("it is being handled", begun.recv()).await?;
    sending.shutdown().await;
    open.add_permits(1);
    eventually("the response is kept", || async { Ok(api.send(Call::keyed("1")).await?.is_replayed()) }).await?;
    assert_eq!((api.calls(), api.effects().await?), (1, 1));
    Ok(())
}

async fn a_panic_is_passed_on_and_rolled_back<B: Testable>(stage: &Stage<B>) -> Verdict {
    let api = Api::<B>::open(stage, IdempotencyKeyOptions::default())?;
    api.before(|| Box::pin(async { std::panic::panic_any("out of cheese") }));
    let (first, mut sending) = (api.clone(), JoinSet::new());
    sending.spawn(async move { first.send(Call::keyed("1")).await });
    assert!(sending.join_next().await.is_some_and(|ended| ended.is_err_and(|error| error.is_panic())));
    assert_eq!(api.effects().await?, 0);
    api.before(|| Box::pin(async {}));
    let handled = || async { Ok(api.send(Call::keyed("1")).await?.status == StatusCode::CREATED) };
    eventually("it is handled when it is sent again", handled).await?;
    assert_eq!((api.calls(), api.effects().await?), (2, 1));
    Ok(())
}

/// The commit of each request is cut; returns how often the handler was called for ten requests.
async fn calls<B: ByWire>(stage: &Stage<B>, cut: fn(&Proxy, &str)) -> anyhow::Result<usize> {
    let (proxy, store) = stage.behind_proxy().await?;
    let api = Api::<B>::at(stage, &store, IdempotencyKeyOptions::default())?;
    for n in 1..=10 {
        let key = format!("the-key-of-request-{n}");
        cut(&proxy, &key);
        let said = api.send(Call::keyed(&key)).await?;
        assert_eq!((said.status, said.is_replayed()), (StatusCode::CREATED, false), "{}", said.text());
        assert!(api.send(Call::keyed(&key)).await?.is_replayed());
        assert_eq!((proxy.cuts(), api.effects().await?), (n, usize::try_from(n)?));
    }
    Ok(api.calls())
}

async fn a_commit_that_was_carried_out_is_answered_as_such<B: ByWire>(stage: &Stage<B>) -> Verdict {
    assert_eq!(calls(stage, Proxy::cut_commit_of).await?, 10);
    Ok(())
}

async fn a_commit_that_was_not_carried_out_is_tried_again<B: ByWire>(stage: &Stage<B>) -> Verdict {
    assert_eq!(calls(stage, Proxy::lose_commit_of).await?, 20);
    Ok(())
}
