//! A message that arrives in a handler's own transaction.

use std::time::Duration;

use crate::error::Result;
use crate::handler::{Backend, HOLD_MAX};
use crate::message::{Incoming, Message};
use crate::queue::Lease;
use crate::store::Admission;

/// A transaction that holds the row of a message that arrived.
pub(crate) struct Held<B: Backend> {
    pub(crate) tx: B::Tx,
    pub(crate) lease: Lease,
    pub(crate) message: Message,
}

/// Begins a transaction and puts the message's row into it; or says why not, and leaves nothing open.
pub(crate) async fn admit<B: Backend>(
    store: &B::Store,
    incoming: &Incoming,
    hold: Duration,
) -> Result<std::result::Result<Held<B>, Admission>> {
    let mut tx = B::begin(store, HOLD_MAX).await?;
    match B::arrive(&mut tx, incoming, hold).await {
        Ok(Admission::Held { lease, message }) => Ok(Ok(Held { tx, lease, message: *message })),
        Ok(admission) => {
            B::leave(tx).await?;
            Ok(Err(admission))
        }
        Err(error) => {
            B::roll_back(tx).await;
            Err(error)
        }
    }
}
