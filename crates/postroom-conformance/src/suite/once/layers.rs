//! The idempotent wrapper as a layer of a `tower` service.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use postroom::clock::Timestamp;
use postroom::idempotent::{
    Admitted, Idempotent, IdempotentLayer, IdempotentOptions, IdempotentService, Identified, Marking, Once, SharedCtx,
    Unhandled,
};
use postroom::operator::Filter;
use postroom::store::{BoxFuture, Memory};
use postroom::{ErrorKind, InboxKey, Incoming, NewMessage};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tower::{Layer, Service, ServiceExt};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, Stage, Testable, soon};

cases! { layers:
    worker of_64_calls_at_once_one_is_served ["PLN-4.1", "PLN-7.1"];
    worker a_call_that_fails_is_rolled_back_and_served_again [];
    worker marked_before_a_failure_keeps_or_releases_the_claim [];
    worker a_panic_is_passed_on_and_rolled_back [];
    worker a_task_that_is_left_behind_keeps_the_call_from_its_commit [];
    worker the_topic_of_a_request_is_kept_with_its_mark [];
    memory only_a_service_that_is_ready_is_called [];
}

const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);

/// What the service does with its first call; it succeeds with all others.
#[derive(Clone, Copy, Debug)]
enum First {
    Succeeds,
    Fails,
    Panics,
    LeavesATask,
}

/// Leaves an effect. A clone is not ready before it is asked, and must not be called before that.
#[derive(Debug)]
struct Reserve {
    first: First,
    calls: Arc<AtomicUsize>,
    /// A permit ends the task that is left behind.
    let_go: Arc<Semaphore>,
    is_ready: bool,
}

impl Clone for Reserve {
    fn clone(&self) -> Self {
        Self { calls: self.calls.clone(), let_go: self.let_go.clone(), is_ready: false, first: self.first }
    }
}

impl<B: Testable> Service<Admitted<B, Incoming>> for Reserve {
    type Response = usize;
    type Error = String;
    type Future = BoxFuture<'static, Result<usize, String>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, admitted: Admitted<B, Incoming>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "it was called before it was ready");
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let (first, let_go) = (if call == 0 { self.first } else { First::Succeeds }, self.let_go.clone());
        Box::pin(async move {
            enqueue(&admitted.ctx).await.map_err(|error| error.to_string())?;
            match first {
                First::Succeeds => {}
                First::Fails => return Err("not yet".into()),
                First::Panics => std::panic::panic_any("out of cheese"),
                First::LeavesATask => hold(admitted.ctx, let_go).await,
            }
            Ok(call)
        })
    }
}

async fn enqueue<B: Testable>(shared: &SharedCtx<B>) -> postroom::Result<()> {
    shared.lock().await?.enqueue(NewMessage::new("forwarded", "").due_at(NEVER)).await.map(drop)
}

/// Leaves a thread behind that holds the context.
async fn hold<B: Testable>(shared: SharedCtx<B>, let_go: Arc<Semaphore>) {
    let (held, holding) = oneshot::channel();
    let runtime = Handle::current();
    std::thread::spawn(move || {
        runtime.block_on(async {
            let guard = shared.lock().await;
            held.send(()).ok();
            drop((let_go.acquire().await, guard));
        });
    });
    holding.await.ok();
}

fn service<B: Testable>(
    stage: &Stage<B>,
    first: First,
    options: IdempotentOptions,
) -> anyhow::Result<(IdempotentService<B, Reserve>, Reserve)> {
    let inner = Reserve { first, calls: Arc::default(), let_go: Arc::new(Semaphore::new(0)), is_ready: false };
    let layer = IdempotentLayer::new(Idempotent::with(stage.store.clone(), "reserve", options)?);
    Ok((layer.layer(inner.clone()), inner))
}

async fn forwarded(h: &Harness) -> anyhow::Result<usize> {
    Ok(h.outbox.queue().list(Filter::all().topic("forwarded")).await?.len())
}

async fn of_64_calls_at_once_one_is_served<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (service, inner) = service(stage, First::Succeeds, IdempotentOptions::default())?;
    let incoming = Draft::new("a").incoming()?;
    let mut serving = JoinSet::new();
    for _ in 0..64 {
        serving.spawn(service.clone().oneshot(incoming.clone()));
    }
    let served: Result<Vec<_>, _> = soon("all are answered", serving.join_all()).await?.into_iter().collect();
    assert_eq!(served?.into_iter().filter_map(Once::ran).collect::<Vec<_>>(), [0]);
    assert_eq!((inner.calls.load(Ordering::SeqCst), forwarded(stage).await?), (1, 1));
    Ok(())
}

async fn a_call_that_fails_is_rolled_back_and_served_again<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (service, _) = service(stage, First::Fails, IdempotentOptions::default())?;
    let incoming = Draft::new("a").incoming()?;
    let failed = service.clone().oneshot(incoming.clone()).await;
    assert!(matches!(failed, Err(Unhandled::Handler(why)) if why == "not yet"));
    assert_eq!(forwarded(stage).await?, 0);
    assert_eq!(service.clone().oneshot(incoming.clone()).await?, Once::Ran(1));
    assert_eq!((service.oneshot(incoming).await?, forwarded(stage).await?), (Once::Duplicate, 1));
    Ok(())
}

async fn marked_before_a_failure_keeps_or_releases_the_claim<B: Testable>(stage: &Stage<B>) -> Verdict {
    let keeps = IdempotentOptions::default().marking(Marking::before_handling());
    let releases = IdempotentOptions::default().release_claim_on_error(true);
    for first in [First::Fails, First::Panics] {
        for (options, expected) in [(keeps.clone(), Once::Duplicate), (releases.clone(), Once::Ran(1))] {
            let (service, _) = service(stage, first, options)?;
            let incoming = Draft::new("a").incoming()?;
            let mut failing = JoinSet::new();
            failing.spawn(service.clone().oneshot(incoming.clone()));
            assert!(!matches!(failing.join_next().await, Some(Ok(Ok(_)))));
            assert_eq!(service.oneshot(incoming).await?, expected);
        }
    }
    assert_eq!(forwarded(stage).await?, 2);
    Ok(())
}

async fn a_panic_is_passed_on_and_rolled_back<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (service, _) = service(stage, First::Panics, IdempotentOptions::default())?;
    let incoming = Draft::new("a").incoming()?;
    let mut serving = JoinSet::new();
    serving.spawn(service.clone().oneshot(incoming.clone()));
    let panic = serving.join_next().await.and_then(Result::err).and_then(|ended| ended.try_into_panic().ok());
    assert_eq!(panic.and_then(|panic| panic.downcast_ref::<&str>().copied()), Some("out of cheese"));
    assert_eq!(forwarded(stage).await?, 0);
    assert_eq!((service.oneshot(incoming).await?, forwarded(stage).await?), (Once::Ran(1), 1));
    Ok(())
}

async fn a_task_that_is_left_behind_keeps_the_call_from_its_commit<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (service, inner) = service(stage, First::LeavesATask, IdempotentOptions::default())?;
    let refused = soon("it is answered", service.oneshot(Draft::new("a").incoming()?)).await?;
    assert!(matches!(refused, Err(Unhandled::Store(error)) if error.kind() == ErrorKind::Callback));
    assert_eq!(forwarded(stage).await?, 0);
    inner.let_go.add_permits(1);
    Ok(())
}

async fn only_a_service_that_is_ready_is_called(stage: &Stage<Memory>) -> Verdict {
    let (mut service, inner) = service(stage, First::Succeeds, IdempotentOptions::default())?;
    for _ in 0..3 {
        let ready: &mut IdempotentService<Memory, Reserve> = ServiceExt::<Incoming>::ready(&mut service).await?;
        ready.call(Draft::new("a").incoming()?).await?;
    }
    assert_eq!(inner.calls.load(Ordering::SeqCst), 3);
    Ok(())
}

/// A request that names its topic, or none.
struct Named(InboxKey, &'static str);

impl Identified for Named {
    fn inbox_key(&self) -> postroom::Result<InboxKey> {
        Ok(self.0.clone())
    }

    fn topic(&self) -> &str {
        self.1
    }
}

async fn the_topic_of_a_request_is_kept_with_its_mark<B: Testable>(stage: &Stage<B>) -> Verdict {
    let once = Idempotent::<B>::new(stage.store.clone(), "reserve")?;
    let echo = tower::service_fn(|admitted: Admitted<B, Named>| async move {
        let topic = admitted.ctx.lock().await?.message().topic.clone();
        Ok::<_, postroom::Error>(topic)
    });
    let service = IdempotentLayer::new(once.clone()).layer(echo);
    for topic in ["order.placed", ""] {
        let key = Draft::new("a").key()?;
        assert_eq!(service.clone().oneshot(Named(key.clone(), topic)).await?, Once::Ran(topic.to_owned()));
        assert_eq!(once.marked(&key).await?.as_ref().map(postroom::store::Marked::topic), Some(topic));
    }
    let refused = service.oneshot(Named(Draft::new("a").key()?, "trailing ")).await;
    assert!(matches!(refused, Err(Unhandled::Store(error)) if error.kind() == ErrorKind::InvalidInput));
    Ok(())
}
