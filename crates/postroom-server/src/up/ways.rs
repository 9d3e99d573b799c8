//! The ways to other services: those of the configuration, or the command that handles everything.

use postroom::{BoxFuture, Courier, Delivery, Message, Pass, Transport};

use super::exec::Command;

/// Takes messages to other services.
pub(super) struct Ways {
    pub(super) courier: Courier,
    pub(super) command: Option<Command>,
}

impl Ways {
    /// Services may come with a new configuration.
    fn has_services(&self) -> bool {
        !self.courier.destinations().is_empty()
    }
}

impl Transport for Ways {
    fn admit<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Result<Pass, Delivery>> {
        if self.has_services() { self.courier.admit(message) } else { Box::pin(async { Ok(Pass::default()) }) }
    }

    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        match &self.command {
            _ if self.has_services() => self.courier.send(message),
            Some(command) => command.send(message),
            None => Box::pin(async { Delivery::NoRoute }),
        }
    }
}
