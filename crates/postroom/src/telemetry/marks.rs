//! What is told of messages that are marked.

use metrics::counter;
use tracing::{error, info, warn};

use super::{metric, store_label};
use crate::error::Error;
use crate::idempotent::Unhandled;
use crate::message::InboxKey;

pub(crate) fn handled_before(store: &str, handler: &str, key: &InboxKey) {
    info!(store, handler, source = key.source(), message_id = key.message_id(), "duplicate: handled before");
    counter!(metric::INBOX_DUPLICATES, "store" => store_label(store)).increment(1);
}

pub(crate) fn not_handled(store: &str, handler: &str, key: &InboxKey, unhandled: &Unhandled) {
    let (source, message_id) = (key.source(), key.message_id());
    match unhandled {
        Unhandled::Handler(failure) => {
            error!(store, handler, source, message_id, error = failure.message, "the handler failed");
        }
        Unhandled::Store(error) => {
            warn!(store, handler, source, message_id, %error, "the message could not be handled");
        }
    }
}

pub(crate) fn mark_kept(store: &str, handler: &str, key: &InboxKey, error: &Error) {
    let (source, message_id) = (key.source(), key.message_id());
    error!(store, handler, source, message_id, %error, "the mark could not be released: it is not handled again");
}

pub(crate) fn marks_purged(store: &str, handler: &str, count: u64) {
    if count > 0 {
        info!(store, handler, count, "old marks deleted");
    }
}

pub(crate) fn marks_not_purged(store: &str, handler: &str, error: &Error) {
    warn!(store, handler, %error, "old marks could not be deleted; trying again later");
}
