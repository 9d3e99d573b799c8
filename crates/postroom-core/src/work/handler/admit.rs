//! A message that arrives in its handler's own transaction.

use std::time::Duration;

use crate::message::{Incoming, Message};
use crate::queue::Lease;
use crate::store::Admission;
use crate::support::error::Result;
use crate::work::handler::{Backend, HOLD_MAX};

/// A transaction that contains the row of a message that arrived.
#[allow(missing_debug_implementations, reason = "a transaction of any backend prints nothing")]
pub struct Held<B: Backend> {
    pub tx: B::Tx,
    pub lease: Lease,
    pub message: Message,
}

/// Begins a transaction and adds the message's row to it. If it cannot, it returns the reason and leaves nothing open.
pub async fn admit<B: Backend>(
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
