//! Handlers for tests: the case says what a handler does, and every call is recorded.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use postroom::queue::Queue;
use postroom::sqlite::BlockingCtx;
use postroom::store::{BoxFuture, Store};
use postroom::tenancy::Fleet;
use postroom::{Ctx, HandlerResult, Handlers, Message, Worker, WorkerOptions};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use crate::harness::{Stage, Testable};

/// One call of a handler.
pub struct Call {
    /// The message.
    pub message: Arc<Message>,
    /// The number of this attempt, starting at one.
    pub attempt: u32,
    /// Ends when the work is in vain.
    pub cancelled: BoxFuture<'static, ()>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("message", &self.message).finish_non_exhaustive()
    }
}

/// What a handler answers.
pub type Answer = HandlerResult<Option<String>>;

type Play = dyn Fn(Call) -> BoxFuture<'static, Answer> + Send + Sync;

/// What a handler does, and what it was called with.
#[derive(Clone)]
pub struct Script {
    play: Arc<Play>,
    calls: Arc<Mutex<Vec<Arc<Message>>>>,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Script").field("calls", &self.calls().len()).finish_non_exhaustive()
    }
}

impl Script {
    /// A handler that does this.
    pub fn new<F, Fut>(play: F) -> Self
    where
        F: Fn(Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Answer> + Send + 'static,
    {
        Self { play: Arc::new(move |call| Box::pin(play(call))), calls: Arc::default() }
    }

    /// A handler that succeeds.
    pub fn succeed() -> Self {
        Self::new(|_| async { Ok(None) })
    }

    /// Every message it was called with, in order.
    pub fn calls(&self) -> Vec<Arc<Message>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often it was called.
    pub fn count(&self) -> usize {
        self.calls().len()
    }

    /// As the handler of every topic.
    pub fn handlers<B: Testable>(&self) -> Handlers<B> {
        Handlers::new().state(self.clone()).fallback(play::<B>)
    }

    fn note(&self, message: &Arc<Message>) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(message.clone());
    }
}

/// A handler that says when it begins, and ends when it may: its answer is 7.
#[derive(Debug)]
pub struct Gate {
    /// The handler.
    pub script: Script,
    /// Called for each call.
    pub begun: mpsc::UnboundedReceiver<()>,
    /// Each permit lets one call end.
    pub open: Arc<Semaphore>,
}

impl Gate {
    /// Nobody may end yet.
    pub fn shut() -> Self {
        let (begin, begun) = mpsc::unbounded_channel();
        let open = Arc::new(Semaphore::new(0));
        let gate = open.clone();
        let script = Script::new(move |_| {
            let (begin, gate) = (begin.clone(), gate.clone());
            async move {
                begin.send(())?;
                gate.acquire().await?.forget();
                Ok(Some("7".into()))
            }
        });
        Self { script, begun, open }
    }
}

/// The handler that plays the script in its state.
pub async fn play<B: Testable>(ctx: &mut Ctx<B>, message: Arc<Message>) -> Answer {
    let script = ctx.state::<Script>()?;
    script.note(&message);
    let token = ctx.cancelled();
    let cancelled = Box::pin(async move { token.cancelled().await });
    (script.play)(Call { message, attempt: ctx.attempt(), cancelled }).await
}

/// The same on the writer's own thread.
pub fn play_blocking(ctx: &mut BlockingCtx<'_>) -> Answer {
    let (script, message) = (ctx.state::<Script>()?, Arc::new(ctx.message().clone()));
    script.note(&message);
    let call = Call { message, attempt: ctx.attempt(), cancelled: Box::pin(std::future::pending()) };
    tokio::runtime::Builder::new_current_thread().build()?.block_on((script.play)(call))
}

/// A worker at work.
#[derive(Debug)]
pub struct Running {
    tasks: JoinSet<postroom::Result<()>>,
    stop: Option<oneshot::Sender<()>>,
}

impl Running {
    /// Starts a worker.
    pub fn start<B: Testable>(worker: Worker<B>) -> Self {
        Self::spawn(|stopped| worker.run(stopped))
    }

    /// Starts a fleet.
    pub fn sail<B: Testable>(fleet: Fleet<B>) -> Self {
        Self::spawn(|stopped| fleet.run(stopped))
    }

    fn spawn<F>(run: impl FnOnce(BoxFuture<'static, ()>) -> F) -> Self
    where
        F: Future<Output = postroom::Result<()>> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel::<()>();
        let mut tasks = JoinSet::new();
        tasks.spawn(run(Box::pin(async move { drop(stopped.await) })));
        Self { tasks, stop: Some(stop) }
    }

    /// Tells it to stop.
    pub fn shut_down(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
    }

    /// Tells it to stop, and waits until it has.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.shut_down();
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}

impl<B: Testable> Stage<B> {
    /// A worker on one of the queues.
    pub fn worker(&self, queue: Queue, handlers: Handlers<B>) -> Worker<B> {
        match queue {
            Queue::Outbox => Worker::outbox(self.store.clone(), handlers),
            Queue::Inbox => Worker::inbox(self.store.clone(), handlers),
        }
    }

    /// Starts a worker that plays a script for every topic of one queue.
    pub fn work(&self, queue: Queue, script: &Script, options: WorkerOptions) -> Running {
        Running::start(self.worker(queue, script.handlers()).options(options))
    }

    /// Tells workers to look again.
    pub fn ring(&self) {
        self.store.wake(Queue::Outbox).ring();
        self.store.wake(Queue::Inbox).ring();
    }
}
