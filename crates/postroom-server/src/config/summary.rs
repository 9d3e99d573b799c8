//! A summary of a configuration, in a few lines.

use std::time::Duration;

use super::{Config, EVERY};
use crate::duration;
use crate::up::RECEIVER;
use crate::up::greeting::listed;

impl Config {
    /// What a node with this configuration does, one line per part.
    pub(crate) fn summary(&self) -> Vec<String> {
        let worker = &self.worker;
        let mut lines = vec![format!(
            "handles up to {} messages of each queue at once, with leases of {}",
            worker.concurrency,
            duration::short(worker.lease)
        )];
        lines.push(match &self.receiver.listen {
            Some(listen) if listen.is_empty() => "receives nothing".into(),
            listen => {
                let usual = vec![RECEIVER.to_owned()];
                let names = self.sources.iter().map(|source| source.name.as_str());
                let at = listed(listen.as_ref().unwrap_or(&usual).iter().map(String::as_str));
                format!("receives at {at} as {}, from {}", self.name, listed(names))
            }
        });
        lines.extend(self.takes());
        lines.push(self.sends());
        lines.extend(self.pushes());
        let kept = (duration::short(self.retention.outbox), duration::short(self.retention.inbox));
        lines.push(format!("keeps done messages for {} in the outbox and {} in the inbox", kept.0, kept.1));
        let for_so_long = |kept: Option<Duration>| {
            kept.map_or_else(|| "forever".to_owned(), |kept| format!("for {}", duration::short(kept)))
        };
        let [dead, expired, dismissed] =
            [self.retention.dead, self.retention.expired, Some(self.retention.dismissed)].map(for_so_long);
        lines
            .push(format!("keeps dead messages {dead}, expired messages {expired} and dismissed messages {dismissed}"));
        if let Some((every, _)) = &self.backup.every {
            let (every, keep) = (duration::short(*every), duration::short(self.backup.keep));
            lines.push(format!("backs up the file every {every} and keeps each copy for {keep}"));
        }
        lines
    }

    /// The paths at which webhooks arrive.
    pub(crate) fn takes(&self) -> Option<String> {
        let hooks = self.hooks.iter().map(|hook| format!("/_rf/hooks/{}", hook.name)).collect::<Vec<_>>();
        (!hooks.is_empty()).then(|| format!("accepts webhooks at {}", listed(hooks.iter().map(String::as_str))))
    }

    /// Whether this node can send to that service.
    pub(crate) fn reaches(&self, name: &str) -> bool {
        self.services.iter().any(|service| service.name == name || service.name == EVERY)
    }

    /// The services that this node sends to.
    pub(crate) fn sends(&self) -> String {
        let services = self.services.iter().map(|service| match service.name.as_str() {
            EVERY => "every other service",
            name => name,
        });
        format!("sends to {}", listed(services))
    }

    /// The handlers and their URLs.
    pub(crate) fn pushes(&self) -> Vec<String> {
        let told = self.handlers.iter().map(|handler| {
            // The query string may hold a secret.
            let url = handler.url.split('?').next().unwrap_or_default();
            match handler.topic.as_str() {
                EVERY => format!("posts every other topic to {url}"),
                topic => format!("posts {topic} to {url}"),
            }
        });
        let fetched = self.pulled.iter().map(|topic| match topic.as_str() {
            EVERY => "lets services fetch every other topic".to_owned(),
            topic => format!("lets services fetch {topic}"),
        });
        let mut told: Vec<_> = told.chain(fetched).collect();
        if told.is_empty() && self.file.is_some() {
            told.push("has no handlers: messages for this node wait until [handlers] has one".to_owned());
        }
        told
    }

    /// Settings that are probably not intended.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        for source in &self.sources {
            if self.receiver.queued && !self.reaches(&source.name) {
                let name = &source.name;
                doubts.push(format!("{name} gets no answers, because there is no [services.{name}] to send them to"));
            }
        }
        doubts.extend(self.tls_doubts());
        if self.receiver.listen.as_ref().is_some_and(Vec::is_empty)
            && (!self.sources.is_empty() || !self.hooks.is_empty())
        {
            doubts.push("there are sources or hooks, but `listen` in [receiver] is empty".into());
        }
        doubts
    }
}
