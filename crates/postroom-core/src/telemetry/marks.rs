//! Logs and metrics of marked messages.

use metrics::counter;
use tracing::{error, info, warn};

use super::{metric, store_label};
use crate::message::InboxKey;
use crate::support::error::Error;

pub fn handled_before(store: &str, handler: &str, key: &InboxKey) {
    info!(store, handler, source = key.source(), message_id = key.message_id(), "duplicate: handled before");
    counter!(metric::INBOX_DUPLICATES, "store" => store_label(store)).increment(1);
}

pub fn marked_failed(store: &str, handler: &str, key: &InboxKey, why: &str) {
    let (source, message_id) = (key.source(), key.message_id());
    error!(store, handler, source, message_id, error = why, "the handler failed");
}

pub fn marking_broken(store: &str, handler: &str, key: &InboxKey, error: &Error) {
    let (source, message_id) = (key.source(), key.message_id());
    warn!(store, handler, source, message_id, %error, "the message could not be handled");
}

// For requests only the key is logged, because their source is made from the caller's credentials.

pub fn replayed(store: &str, layer: &str, key: &InboxKey) {
    info!(store, layer, key = key.message_id(), "duplicate: the stored response was sent");
    counter!(metric::INBOX_DUPLICATES, "store" => store_label(store)).increment(1);
}

pub fn request_broken(store: &str, layer: &str, key: &InboxKey, error: &Error) {
    warn!(store, layer, key = key.message_id(), %error, "the request could not be handled");
}

pub fn key_reused(store: &str, layer: &str, key: &InboxKey) {
    warn!(store, layer, key = key.message_id(), "a key was used for another request");
}

pub fn mark_kept(store: &str, handler: &str, key: &InboxKey, error: &Error) {
    let (source, message_id) = (key.source(), key.message_id());
    error!(store, handler, source, message_id, %error, "the mark could not be removed; the message is not retried");
}

pub fn marks_purged(store: &str, handler: &str, count: u64) {
    if count > 0 {
        info!(store, handler, count, "old marks deleted");
    }
}

pub fn marks_not_purged(store: &str, handler: &str, error: &Error) {
    warn!(store, handler, %error, "old marks could not be deleted; this is tried again later");
}
