//! What becomes of a message that is for this node: it goes to a command, is printed, or goes to its handler's URL.

use std::sync::Arc;

use postroom::{Backend, Ctx, HandlerError, Handlers, Message};

use super::exec::Command;
use super::print::Printer;
use super::push::Routes;

/// Who handles messages here.
pub(super) enum Work {
    Command(Command),
    Printer(Printer),
    /// What has no handler waits for one.
    Routes(Routes),
}

/// All topics go the same way.
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
