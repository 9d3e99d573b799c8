//! What is handled once though it comes to no inbox: a message by some other way, a call, a request.

mod idempotency_key;
pub(super) mod idempotent;
mod layers;

use crate::case::Case;

/// Every case about what is handled once.
pub(super) fn cases() -> Vec<Case> {
    [idempotent::PROMISES.concat(), layers::CASES.to_vec(), idempotency_key::PROMISES.concat()].concat()
}
