//! What becomes of a message that is for this node: it goes to a command, to a handler's URL, or is printed.

use std::sync::Arc;

use postroom::{Backend, Ctx, HandlerError, Handlers, Message};

use super::exec::Command;
use super::print::Printer;
use super::push::Routes;

/// Who handles messages here.
pub(super) struct Work {
    pub(super) command: Option<Command>,
    pub(super) routes: Routes,
    pub(super) printer: Printer,
}

/// All topics go the same way.
pub(super) fn handlers<B: Backend>(work: &Arc<Work>) -> Handlers<B> {
    Handlers::new().state(work.clone()).fallback(handle::<B>)
}

async fn handle<B: Backend>(ctx: &mut Ctx<B>, message: Arc<Message>) -> Result<Option<String>, HandlerError> {
    let work = ctx.state::<Arc<Work>>()?.clone();
    if let Some(command) = &work.command {
        return command.handle(&message).await;
    }
    match work.routes.handle(&message).await {
        Some(handled) => handled,
        None => work.printer.handle(&message).await,
    }
}
