//! When messages are retried and how long they live: `[retry]`, and the same keys of a topic, a service or a handler.
//! The names are those of the SQLite document.

use std::time::Duration;

use postroom::RetryPolicy;
use postroom::queue::RetryPolicies;

use super::reader::Section;
use super::sections::{DAY, MILLISECOND};
use super::{Config, EVERY};

/// Ten years.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The keys that one section sets.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) struct Retry {
    max_retries: Option<u32>,
    base_retry_delay: Option<Duration>,
    retry_factor: Option<u32>,
    max_retry_delay: Option<Duration>,
    retry_jitter: Option<Duration>,
    message_ttl: Option<Duration>,
}

impl Retry {
    /// Takes the keys out of a section.
    pub(super) fn take(section: &mut Section<'_>) -> Self {
        let number = |number: Option<u64>| number.and_then(|number| u32::try_from(number).ok());
        let retry = Self {
            max_retries: number(section.number("max_retries", 0..=10_000)),
            base_retry_delay: section.span("base_retry_delay", MILLISECOND..=30 * DAY),
            retry_factor: number(section.number("retry_factor", 1..=100)),
            max_retry_delay: section.span("max_retry_delay", MILLISECOND..=30 * DAY),
            retry_jitter: section.span("retry_jitter", Duration::ZERO..=30 * DAY),
            message_ttl: section.span("message_ttl", MILLISECOND..=LONGEST),
        };
        if let Some(at) = section.place_of("max_retry_delay").filter(|_| retry.max_retry_delay < retry.base_retry_delay)
        {
            let title = &section.title;
            section.mistake(&at, format!("`max_retry_delay` in {title} must not be shorter than `base_retry_delay`"));
        }
        retry
    }

    /// Applies these keys to a policy. If the first delay exceeds the longest, the longest grows with it.
    fn over(&self, policy: &RetryPolicy) -> RetryPolicy {
        let mut policy = policy.clone();
        if let Some(retries) = self.max_retries {
            policy = policy.attempts(retries.saturating_add(1));
        }
        if let Some(delay) = self.base_retry_delay {
            policy = policy.base(delay);
        }
        if let Some(factor) = self.retry_factor {
            policy = policy.factor(f64::from(factor));
        }
        if let Some(delay) =
            self.max_retry_delay.or(self.base_retry_delay.filter(|delay| *delay > policy.longest_delay()))
        {
            policy = policy.longest(delay);
        }
        if let Some(jitter) = self.retry_jitter {
            policy = policy.jitter(jitter);
        }
        if self.message_ttl.is_some() {
            policy = policy.ttl(self.message_ttl);
        }
        policy
    }
}

impl Config {
    /// The policies of all sections.
    pub(crate) fn policies(&self) -> RetryPolicies {
        let (here, sent) = (self.retry.over(&RetryPolicy::handlers()), self.retry.over(&RetryPolicy::services()));
        let every = self.handlers.iter().find(|handler| handler.topic == EVERY).map(|handler| handler.retry);
        let other = every.unwrap_or_default().over(&here);
        let every = self.services.iter().find(|service| service.name == EVERY).map(|service| service.retry);
        let mut policies = RetryPolicies::default().handlers(other).services(every.unwrap_or_default().over(&sent));
        for (topic, retry) in &self.topics {
            policies = policies.topic(topic, retry.over(&sent)).handler(topic, retry.over(&here));
        }
        // A handler or service without keys gets no policy, so that it compares as equal.
        for (topic, retry) in self.handled().filter(|(_, retry)| *retry != Retry::default()) {
            let of_topic = self.topics.iter().find(|(name, _)| name == topic).map(|(_, retry)| *retry);
            policies = policies.handler(topic, retry.over(&of_topic.unwrap_or_default().over(&here)));
        }
        let named = self.services.iter().filter(|service| service.name != EVERY);
        for service in named.filter(|service| service.retry != Retry::default()) {
            policies = policies.service(&service.name, service.retry.over(&sent));
        }
        policies
    }

    /// The topics that have a separate handler, posted or fetched.
    fn handled(&self) -> impl Iterator<Item = (&str, Retry)> {
        let posted = self.handlers.iter().map(|handler| (handler.topic.as_str(), handler.retry));
        let fetched = self.pulled.iter().zip(&self.pulled_retry).map(|(topic, retry)| (topic.as_str(), *retry));
        posted.chain(fetched).filter(|(topic, _)| *topic != EVERY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Config {
        Config::read(Some("postroom.toml".into()), text, std::collections::BTreeMap::new().into_iter().collect())
            .unwrap_or_else(|mistakes| panic!("{mistakes}"))
    }

    #[test]
    fn the_most_special_section_wins_and_leaves_the_rest_as_it_is() {
        let config = read(
            r#"
            [retry]
            max_retries = 20
            message_ttl = "2d"
            [topics."newsletter"]
            max_retries = 1
            [services.billing]
            url = "unix:///run/billing.sock"
            keys = { a = { env = "KEY" } }
            max_retry_delay = "1h"
            [handlers."invoice.due"]
            url = "http://127.0.0.1:8080/"
            max_retries = 2
            base_retry_delay = "5m"
            "#,
        );
        let policies = config.policies();
        let of = |topic, to| policies.of(topic, to);
        assert_eq!((of("a", None).attempts_max(), of("a", Some("x")).attempts_max()), (21, 21));
        assert_eq!((of("newsletter", None).attempts_max(), of("newsletter", Some("x")).attempts_max()), (2, 2));
        let billing = of("newsletter", Some("billing"));
        assert_eq!((billing.attempts_max(), billing.longest_delay()), (21, Duration::from_secs(3600)));
        let invoice = of("invoice.due", None);
        assert_eq!((invoice.attempts_max(), invoice.delay(1)), (3, Duration::from_secs(300)));
        assert_eq!(invoice.time_to_live(), Some(2 * DAY));
        assert_eq!(read("").policies(), RetryPolicies::default());
    }
}
