//! Runs claimed messages through their handlers: the worker's filling for the inbox, and for what the outbox handles
//! here.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Semaphore;

use crate::clock::monotonic;
use crate::error::ErrorKind;
use crate::handler::erased::{Entry, Erased};
use crate::handler::{Backend, Ctx, HandlerError, Handlers};
use crate::message::Message;
use crate::queue::{Claimed, Lease, Queue};
use crate::store::{BoxFuture, Store};
use crate::telemetry;
use crate::worker::{Outcome, Process, Run};

pub(crate) struct Runner<B: Backend> {
    store: B::Store,
    queue: Queue,
    handlers: Handlers<B>,
    slots: Semaphore,
}

impl<B: Backend> Runner<B> {
    pub(crate) fn new(store: B::Store, queue: Queue, handlers: Handlers<B>, concurrency: usize) -> Self {
        Self { store, queue, handlers, slots: Semaphore::new(concurrency) }
    }

    async fn run_one(&self, lease: Lease, message: Message, handler: Arc<dyn Erased<B>>, run: &Run) {
        let permit = tokio::select! {
            biased;
            () = run.stopping() => return run.report(lease, Outcome::Release),
            permit = self.slots.acquire() => permit,
        };
        telemetry::handling(self.store.name(), self.queue, &message);
        let started = monotonic();
        let message = Arc::new(message);
        let outcome = self.call(&lease, message.clone(), handler.as_ref(), run).await;
        drop(permit);
        telemetry::handled(self.store.name(), self.queue, &message, &outcome, &run.meters, started.elapsed());
        run.report(lease, outcome);
    }

    async fn call(&self, lease: &Lease, message: Arc<Message>, handler: &dyn Erased<B>, run: &Run) -> Outcome {
        let tx = match B::begin(&self.store, hold_max(run.lease)).await {
            Ok(tx) => tx,
            Err(error) => return Outcome::retry(error),
        };
        let cancelled = run.lost.clone();
        let mut ctx = Ctx { tx, message, state: self.handlers.state.clone(), cancelled };
        let handled = {
            let handling = AssertUnwindSafe(B::scope(&self.store, handler.run(&mut ctx))).catch_unwind();
            tokio::select! {
                handled = handling => Some(handled),
                () = run.lost.cancelled() => None,
            }
        };
        match handled {
            None => {
                B::roll_back(ctx.tx).await;
                Outcome::Release
            }
            Some(Ok(Ok(response))) => match B::commit(&self.store, ctx.tx, self.queue, lease, response).await {
                Ok(()) => Outcome::Settled,
                Err(error) if error.kind() == ErrorKind::LeaseLost => Outcome::Lost,
                Err(error) => Outcome::retry(error),
            },
            Some(Ok(Err(error))) => {
                B::roll_back(ctx.tx).await;
                error.into()
            }
            Some(Err(panic)) => {
                B::roll_back(ctx.tx).await;
                HandlerError::panicked(panic.as_ref()).into()
            }
        }
    }
}

/// An async handler keeps everybody else from writing on an embedded database: not for longer than this.
fn hold_max(lease: Duration) -> Duration {
    (lease / 3).min(Duration::from_secs(1))
}

impl<B: Backend> Process for Runner<B> {
    fn process(self: Arc<Self>, batch: Vec<Claimed>, run: Run) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut waiting = FuturesUnordered::new();
            let mut blocking = Vec::new();
            for claimed in batch {
                let message = match claimed.message {
                    Ok(message) => message,
                    Err(why) => {
                        telemetry::unreadable(self.store.name(), self.queue, &claimed.lease, &why);
                        run.report(claimed.lease, Outcome::retry(why));
                        continue;
                    }
                };
                match self.handlers.find(&message.topic) {
                    None => {
                        telemetry::no_handler(self.store.name(), self.queue, &message);
                        let created_at = message.created_at;
                        run.report(claimed.lease, Outcome::Unroutable { why: no_handler(&message.topic), created_at });
                    }
                    Some(Entry::Async(handler)) => waiting.push(self.run_one(claimed.lease, message, handler, &run)),
                    Some(Entry::Blocking(handler)) => {
                        blocking.push((Claimed { lease: claimed.lease, message: Ok(message) }, handler));
                    }
                }
            }
            let state = &self.handlers.state;
            let blocking = async {
                if !blocking.is_empty() {
                    let outcomes = B::run_blocking(&self.store, self.queue, blocking, state, &run).await;
                    run.report_all(outcomes);
                }
            };
            tokio::join!(blocking, async { while waiting.next().await.is_some() {} });
        })
    }
}

fn no_handler(topic: &str) -> String {
    format!("no handler for the topic {topic}")
}
