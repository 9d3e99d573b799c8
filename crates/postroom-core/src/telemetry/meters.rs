//! Metrics of every message, by store, topic and destination.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use metrics::{Histogram, counter, histogram};

use super::label::{DESTINATIONS, TOPICS, store_label};
use super::{Named, metric};
use crate::message::Message;
use crate::queue::{Fault, Queue};

/// The meters of one worker. Each is looked up once, with the first message of its kind.
#[derive(Debug)]
pub(crate) struct Meters {
    store: String,
    queue: Queue,
    /// The meters by topic and destination, under their names in metrics, so that their number is limited.
    known: RwLock<HashMap<String, HashMap<String, Pair>>>,
}

#[derive(Clone, Debug)]
struct Pair {
    took_ms: Histogram,
    retries: Option<Histogram>,
}

impl Meters {
    pub(crate) fn new(queue: Named<'_>) -> Self {
        Self { store: store_label(queue.store), queue: queue.kind, known: RwLock::default() }
    }

    /// Records how long the work took, whatever its outcome, and the retries of what is done.
    pub(crate) fn ended(&self, message: &Message, took: Duration, is_done: bool) {
        let pair = self.of(message);
        pair.took_ms.record(took.as_secs_f64() * 1000.0);
        if let (Some(retries), true) = (pair.retries, is_done) {
            retries.record(f64::from(message.attempts));
        }
    }

    /// Records that it failed.
    pub(super) fn failed(&self, message: &Message, fault: &Fault) {
        let labels = [
            ("store", self.store.clone()),
            ("queue", self.queue.as_str().to_owned()),
            ("topic", TOPICS.of(&message.topic).to_owned()),
            ("destination", message.destination().map_or("", |to| DESTINATIONS.of(to)).to_owned()),
            ("code", fault.cause().code().to_owned()),
            ("whose", fault.whose().as_str().to_owned()),
        ];
        counter!(metric::FAILURES, &labels).increment(1);
    }

    fn of(&self, message: &Message) -> Pair {
        let (topic, destination) = (message.topic.as_str(), message.destination().unwrap_or_default());
        // Those with their own names come first, which are nearly all.
        self.known(topic, destination).unwrap_or_else(|| {
            let destination = if destination.is_empty() { "" } else { DESTINATIONS.of(destination) };
            let topic = TOPICS.of(topic);
            self.known(topic, destination).unwrap_or_else(|| {
                let pair = self.look_up(topic, destination);
                let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
                known.entry(topic.to_owned()).or_default().insert(destination.to_owned(), pair.clone());
                pair
            })
        })
    }

    fn known(&self, topic: &str, destination: &str) -> Option<Pair> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(topic).and_then(|of_topic| of_topic.get(destination)).cloned()
    }

    fn look_up(&self, topic: &str, destination: &str) -> Pair {
        let (store, topic, destination) = (self.store.clone(), topic.to_owned(), destination.to_owned());
        match self.queue {
            Queue::Outbox => {
                let labels = [("store", store), ("topic", topic), ("destination", destination)];
                let retries = Some(histogram!(metric::OUTBOX_RETRIES, &labels));
                Pair { took_ms: histogram!(metric::OUTBOX_SEND_MS, &labels), retries }
            }
            Queue::Inbox => {
                let labels = [("store", store), ("topic", topic)];
                Pair { took_ms: histogram!(metric::INBOX_PROCESS_MS, &labels), retries: None }
            }
        }
    }
}
