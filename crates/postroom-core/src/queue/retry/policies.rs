//! Selects the retry policy of a message.

use std::collections::HashMap;

use crate::message::check_name;
use crate::queue::retry::RetryPolicy;
use crate::support::error::Result;

/// Retry policies by destination, handler and topic. The most specific one wins: the message's own settings, then the
/// policy of the destination or handler, then that of the topic, then the default.
///
/// ```
/// use std::time::Duration;
/// use postroom::{RetryPolicy, WorkerOptions};
/// use postroom::queue::RetryPolicies;
///
/// let patient = RetryPolicy::services().attempts(50).longest(Duration::from_secs(3600));
/// let policies = RetryPolicies::default()
///     .service("inventory", patient.clone())
///     .topic("newsletter", RetryPolicy::services().attempts(2))
///     .handler("invoice.due", RetryPolicy::handlers().attempts(3));
/// assert_eq!(policies.of("newsletter", Some("inventory")), &patient);
/// assert_eq!(policies.of("newsletter", Some("mailer")).attempts_max(), 2);
/// assert_eq!(policies.of("invoice.due", None).attempts_max(), 3);
/// let options = WorkerOptions::default().policies(policies);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicies {
    pub(crate) handled_here: RetryPolicy,
    pub(crate) sent: RetryPolicy,
    services: HashMap<String, RetryPolicy>,
    handlers: HashMap<String, RetryPolicy>,
    topics: HashMap<String, RetryPolicy>,
}

impl Default for RetryPolicies {
    fn default() -> Self {
        Self {
            handled_here: RetryPolicy::handlers(),
            sent: RetryPolicy::services(),
            services: HashMap::new(),
            handlers: HashMap::new(),
            topics: HashMap::new(),
        }
    }
}

impl RetryPolicies {
    crate::setters! {
        /// Sets the policy for messages that are handled here and have no more specific one.
        pub fn handlers(mut self, policy: RetryPolicy) { self.handled_here = policy; }

        /// Sets the policy for messages to other services that have no more specific one.
        pub fn services(mut self, policy: RetryPolicy) { self.sent = policy; }

        /// Sets the policy for messages to this service.
        pub fn service(mut self, destination: impl Into<String>, policy: RetryPolicy) {
            self.services.insert(destination.into(), policy);
        }

        /// Sets the policy for messages of this topic that are handled here.
        pub fn handler(mut self, topic: impl Into<String>, policy: RetryPolicy) {
            self.handlers.insert(topic.into(), policy);
        }

        /// Sets the policy for messages of this topic, wherever they go.
        pub fn topic(mut self, topic: impl Into<String>, policy: RetryPolicy) {
            self.topics.insert(topic.into(), policy);
        }
    }

    /// Returns the policy for messages of this topic that go to that destination, or are handled here.
    pub fn of(&self, topic: &str, destination: Option<&str>) -> &RetryPolicy {
        let (special, default) = match destination {
            Some(destination) => (self.services.get(destination), &self.sent),
            None => (self.handlers.get(topic), &self.handled_here),
        };
        special.or_else(|| self.topics.get(topic)).unwrap_or(default)
    }

    pub(crate) fn checked(self) -> Result<Self> {
        let names = [&self.services, &self.handlers, &self.topics];
        for (name, policy) in names.into_iter().flatten() {
            check_name("the name of a topic or service with a retry policy", name)?;
            policy.clone().checked()?;
        }
        self.handled_here.clone().checked()?;
        self.sent.clone().checked()?;
        Ok(self)
    }
}
