//! The routes to other services: those of the configuration, or the command of --exec.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use postroom::Message;
use postroom::services::Courier;
use postroom::store::BoxFuture;
use postroom::worker::{Delivery, Limits, Transport};

use super::exec::Command;

/// Sends messages to other services.
pub(super) struct Ways {
    courier: Courier,
    command: Option<Command>,
    is_sending: Arc<AtomicBool>,
}

impl Ways {
    pub(super) fn new(courier: Courier, command: Option<Command>, is_sending: bool) -> Self {
        Self { courier, command, is_sending: Arc::new(is_sending.into()) }
    }

    /// Whether there are services. A reload can change this.
    pub(super) fn is_sending(&self) -> Arc<AtomicBool> {
        self.is_sending.clone()
    }
}

impl Transport for Ways {
    fn limits(&self, destination: &str) -> Limits {
        match self.is_sending.load(Ordering::Relaxed) {
            true => self.courier.limits(destination),
            false => Limits::default(),
        }
    }

    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        match &self.command {
            _ if self.is_sending.load(Ordering::Relaxed) => self.courier.send(message),
            Some(command) => command.send(message),
            None => Box::pin(async { Delivery::no_route(message.destination()) }),
        }
    }
}
