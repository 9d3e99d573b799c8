//! Handlers that run on the connection's thread, without waiting.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use crate::message::{Incoming, Message};
use crate::queue::{Claimed, Queue};
use crate::support::error::Result;
use crate::work::batch::BatchRun;
use crate::work::handler::{Backend, HandlerResult, Received, States};

/// A blocking handler of a backend, and how to run it.
pub trait Blocking<B: Backend>: Clone + Send + Sync + 'static {
    /// Runs it in the transaction.
    fn call(
        self,
        tx: &mut B::Tx,
        message: Arc<Message>,
        state: &States,
    ) -> impl Future<Output = HandlerResult<Option<String>>> + Send;

    /// Receives a message with it. The row, the handler's effects and the answer are one transaction.
    fn receive(
        self,
        store: &B::Store,
        incoming: &Arc<Incoming>,
        state: &States,
    ) -> impl Future<Output = Result<Received>> + Send;

    /// Runs several, each in its own transaction, and reports each outcome.
    fn run_all(
        store: &B::Store,
        queue: Queue,
        work: Vec<(Claimed, Self)>,
        state: &States,
        run: &BatchRun,
    ) -> impl Future<Output = ()> + Send;
}

/// A backend without blocking handlers.
impl<B: Backend> Blocking<B> for Infallible {
    async fn call(self, _: &mut B::Tx, _: Arc<Message>, _: &States) -> HandlerResult<Option<String>> {
        match self {}
    }

    async fn receive(self, _: &B::Store, _: &Arc<Incoming>, _: &States) -> Result<Received> {
        match self {}
    }

    async fn run_all(_: &B::Store, _: Queue, _: Vec<(Claimed, Self)>, _: &States, _: &BatchRun) {}
}
