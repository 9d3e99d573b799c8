//! The server's side of one client's connection.

use std::{future, io};

use super::{
    side::{self, Side},
    target::Target,
};

/// Connects when it is first needed: a fault that keeps a request from the server needs no connection.
#[derive(Debug, Default)]
pub(super) struct Backend {
    connected: Option<(Target, Side)>,
}

impl Backend {
    /// Returns a connection to this server: the existing one, unless it leads to another server.
    pub(super) async fn reach(&mut self, target: Target) -> io::Result<&mut Side> {
        let connected = match self.connected.take() {
            Some((known, side)) if known == target => (known, side),
            _ => {
                let side = target.connect().await?;
                (target, side)
            }
        };
        Ok(&mut self.connected.insert(connected).1)
    }

    /// Waits until the server closes its connection, or sends something unexpected.
    pub(super) async fn breaks(&mut self) {
        match &mut self.connected {
            Some((_, side)) => drop(side::ends(&mut side.reads).await),
            None => future::pending().await,
        }
    }

    pub(super) fn into_side(self) -> Option<Side> {
        self.connected.map(|(_, side)| side)
    }
}
