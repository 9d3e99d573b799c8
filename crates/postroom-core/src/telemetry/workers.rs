//! Logs of workers, and of the stores they work on.

use tracing::{debug, error, info, warn};

use super::Named;
use crate::message::OwnerToken;
use crate::support::error::Error;

pub(crate) fn renewal_failed(queue: Named<'_>, error: &Error) {
    warn!(store = queue.store, queue = %queue.kind, %error, "leases could not be renewed");
}

/// Not a warning: it is asked again soon, and whoever claims or renews says that the database is away.
pub(crate) fn stops_unknown(queue: Named<'_>, error: &Error) {
    debug!(store = queue.store, queue = %queue.kind, %error, "cannot ask which messages are to stop; trying again");
}

pub(crate) fn leases_overdue(queue: Named<'_>, count: usize) {
    let (store, queue) = (queue.store, queue.kind);
    warn!(store, %queue, count, "leases may have run out; the work on them is interrupted");
}

pub(crate) fn maintenance_failed(queue: Named<'_>, error: &Error) {
    warn!(store = queue.store, queue = %queue.kind, %error, "maintenance failed; it is tried again later");
}

pub(crate) fn worker_started(queue: Named<'_>, owner: OwnerToken) {
    info!(store = queue.store, queue = %queue.kind, %owner, "worker started");
}

pub(crate) fn worker_stopping(queue: Named<'_>, in_progress: usize) {
    info!(store = queue.store, queue = %queue.kind, in_progress, "worker stopping");
}

pub(crate) fn worker_stopped(queue: Named<'_>, left: usize) {
    info!(store = queue.store, queue = %queue.kind, left, "worker stopped");
}

pub(crate) fn worker_broke_down(queue: Named<'_>, error: &Error) {
    error!(store = queue.store, queue = %queue.kind, %error, "the worker failed; it is restarted");
}

pub(crate) fn fleet_started(stores: usize) {
    info!(stores, "fleet started");
}

pub(crate) fn fleet_stopped() {
    info!("fleet stopped");
}

pub(crate) fn discovery_failed(error: &Error) {
    warn!(%error, "discovery failed; the stores stay as they are");
}

pub(crate) fn discovered<'a>(
    added: impl ExactSizeIterator<Item = &'a str>,
    removed: impl ExactSizeIterator<Item = &'a str>,
    failed: usize,
    kept: usize,
) {
    debug!(added = added.len(), removed = removed.len(), failed, kept, "stores discovered");
    added.for_each(|store| info!(store, "store added"));
    removed.for_each(|store| info!(store, "store removed; it is being drained and closed"));
}

pub(crate) fn store_not_opened(store: &str, error: &Error) {
    warn!(store, %error, "the store cannot be opened; the next refresh tries again");
}

pub(crate) fn store_closed(store: &str) {
    info!(store, "store closed");
}
