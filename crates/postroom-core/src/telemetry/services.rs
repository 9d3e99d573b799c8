//! Logs and metrics of messages between services.

use std::time::Duration;

use metrics::counter;
use tracing::{error, info, warn};

use super::arrivals::count as count_arrival;
use super::{Meters, duplicate, handled, headline, metric, store_label};
use crate::message::{InboxKey, Message};
use crate::queue::retry::RetryPolicies;
use crate::queue::{Outcome, Queue, Whose};
use crate::support::error::Error;

/// Records the outcome of a message to another service.
pub(crate) fn sent(
    store: &str,
    message: &Message,
    outcome: &Outcome,
    meters: &Meters,
    policies: &RetryPolicies,
    took: Duration,
) {
    let fault = match outcome {
        Outcome::Done { .. } => {
            let ms = took.as_secs_f64() * 1000.0;
            meters.ended(message, took, true);
            info!(store, message_id = message.id(), destination = message.destination(), ms, "outbox: message sent");
            return;
        }
        Outcome::Failed(fault) if fault.whose() == Whose::Message => fault,
        _ => return handled(store, Queue::Outbox, message, outcome, meters, took),
    };
    let policy = policies.of(&message.topic, message.destination());
    let max_retries = message.max_attempts.unwrap_or(policy.attempts_max()).saturating_sub(1);
    let (retry, message_id, destination) = (message.attempts + 1, message.id(), message.destination());
    let (code, why) = (fault.cause().code(), headline(fault.why()));
    meters.ended(message, took, false);
    meters.failed(message, fault);
    if retry > max_retries || fault.is_final() {
        error!(
            store,
            message_id,
            destination,
            retries = message.attempts,
            max_retries,
            code,
            error = why,
            "outbox: message permanently failed"
        );
    } else {
        warn!(store, message_id, destination, retry, max_retries, code, error = why, "outbox: send failed");
    }
}

/// Logs that a handler's answer cannot be stored. The handler's work is done all the same.
pub fn answer_not_kept(message: &Message, reason: &str) {
    warn!(topic = message.topic, message_id = message.id(), reason, "the handler's answer is not stored");
}

pub fn accept_failed(service: &str, error: &std::io::Error) {
    warn!(service, %error, "a connection could not be accepted");
}

pub fn window_too_short(destination: &str, window: Duration, horizon: Option<Duration>) {
    let (window, horizon) = (window.as_secs(), horizon.map(|horizon| horizon.as_secs()));
    warn!(
        destination,
        window,
        horizon,
        "the destination's dedupe window is shorter than our messages live: a message may be applied twice"
    );
}

/// Records why a request could not be verified. The reason appears only in the log and the metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distrust {
    UnknownSource,
    Signature,
    Version,
    Destination,
    Time,
    Body,
}

impl Distrust {
    fn as_str(self) -> &'static str {
        match self {
            Self::UnknownSource => "unknown source",
            Self::Signature => "signature",
            Self::Version => "version",
            Self::Destination => "destination",
            Self::Time => "time",
            Self::Body => "body",
        }
    }
}

pub fn distrusted(store: &str, message_id: &str, source: &str, why: Distrust) {
    let reason = why.as_str();
    warn!(store, message_id, source, reason, "inbox: HMAC verification failed");
    counter!(metric::INBOX_DISTRUSTED, "store" => store_label(store), "reason" => reason).increment(1);
}

pub fn hook_distrusted(store: &str, hook: &str, reason: &'static str) {
    warn!(store, hook, reason, "inbox: webhook verification failed");
    counter!(metric::INBOX_DISTRUSTED, "store" => store_label(store), "reason" => reason).increment(1);
}

/// Logs that a known source sent a topic that it may not send.
pub fn topic_refused(store: &str, source: &str, topic: &str) {
    warn!(store, source, topic, "inbox: this source may not send this topic");
    counter!(metric::INBOX_DISTRUSTED, "store" => store_label(store), "reason" => "topic").increment(1);
}

/// Logs the answer of a receiver: to a message that it accepted or already had, or to one that it did not accept.
pub fn received(store: &str, key: &InboxKey, is_duplicate: bool, refusal: Option<(u16, Option<&str>)>) {
    let (source, message_id) = (key.source(), key.message_id());
    if is_duplicate || refusal.is_none() {
        count_arrival(store, is_duplicate);
    }
    match refusal {
        _ if is_duplicate => duplicate(store, key),
        None => info!(store, source, message_id, "inbox: message processed"),
        Some((status, error)) => info!(store, source, message_id, status, error, "inbox: message not accepted"),
    }
}

pub fn receive_failed(store: &str, key: &InboxKey, topic: &str, why: &str) {
    let (source, message_id) = (key.source(), key.message_id());
    error!(store, source, message_id, topic, error = headline(why), "the handler failed");
}

pub fn receive_broken(store: &str, key: &InboxKey, error: &Error) {
    warn!(store, source = key.source(), message_id = key.message_id(), %error, "the message could not be stored");
}

pub fn service_failed(error: &Error) {
    error!(%error, "a part of the service failed; the service stops");
}
