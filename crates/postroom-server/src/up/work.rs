//! Handles messages for this node: a command runs, the message is printed, or it is posted to a URL.

use std::sync::Arc;

use postroom::handler::Backend;
use postroom::{Ctx, HandlerError, Handlers, Message};

use super::exec::Command;
use super::print::Printer;
use super::push::Routes;

/// How this node handles messages.
pub(super) enum Work {
    Command(Command),
    Printer(Printer),
    /// Messages without a handler wait for one.
    Routes(Routes),
}

/// One handler for all topics.
pub(super) fn handlers<B: Backend>(work: &Arc<Work>) -> Handlers<B> {
    Handlers::new().state(work.clone()).fallback(handle::<B>)
}

async fn handle<B: Backend>(ctx: &mut Ctx<B>, message: Arc<Message>) -> Result<Option<String>, HandlerError> {
    let work = ctx.state::<Arc<Work>>()?;
    match &**work {
        Work::Command(command) => command.handle(&message).await,
        Work::Printer(printer) => printer.handle(&message).await,
        Work::Routes(routes) => routes.handle(&message).await,
    }
}
