//! `[handlers."TOPIC"]`: which program handles a topic. The node posts messages to a URL, or services fetch them.

use postroom::Result;
use postroom::queue::Topics;
use postroom::services::Address;

use super::reader::Section;
use super::retry::Retry;
use super::sections::{DAY, MILLISECOND, PLACES_MAX, SECOND, is_exposed, places, required};
use super::tls::Trust;
use super::{Config, Handler};

/// Stands for every topic without a section.
pub(crate) const EVERY: &str = "*";

/// How a handler gets its messages.
pub(super) enum Way {
    Posted(Box<Handler>),
    Fetched(String, Retry),
}

impl Config {
    /// The topics that services fetch themselves, if any.
    pub(crate) fn fetched(&self) -> Result<Option<Topics>> {
        if self.pulled.iter().any(|topic| topic == EVERY) {
            return Topics::except(self.handlers.iter().map(|handler| handler.topic.as_str())).map(Some);
        }
        if self.pulled.is_empty() { Ok(None) } else { Topics::only(&self.pulled).map(Some) }
    }

    /// A topic that services fetch now and did not fetch in `before`; `*` stands for the topics without a section.
    pub(crate) fn newly_fetched<'a>(&'a self, before: &'a Self) -> Result<Option<&'a str>> {
        let (now, then) = (self.fetched()?, before.fetched()?);
        let has = |topics: &Option<Topics>, topic: &str| topics.as_ref().is_some_and(|all| all.contains(topic, None));
        let posted = [self, before].into_iter().flat_map(|config| &config.handlers).map(|handler| &handler.topic);
        let named = self.pulled.iter().chain(&before.pulled).chain(posted).map(String::as_str);
        Ok(named.filter(|name| *name != EVERY).chain([EVERY]).find(|topic| has(&now, topic) && !has(&then, topic)))
    }
}

pub(super) fn handler((topic, mut section): (String, Section<'_>)) -> Option<Way> {
    if topic.trim().is_empty() || topic.contains('*') && topic != EVERY {
        section.mistake(&section.at, "a handler needs the full name of one topic, or \"*\" for every other topic");
    }
    let is_fetched = section.flag("pull").unwrap_or(false);
    let url = if is_fetched { section.text("url") } else { required(&mut section, "http://127.0.0.1:8080/messages") };
    let secrets = section.secrets("secret");
    let timeout = section.span("timeout", MILLISECOND..=DAY).unwrap_or(30 * SECOND);
    let concurrency = places(section.number("concurrency", 1..=PLACES_MAX), 16);
    let allow_unencrypted = section.flag("allow_unencrypted").unwrap_or(false);
    let (tls, retry) = (Trust::take(&mut section), Retry::take(&mut section));
    if is_fetched {
        for key in ["url", "secret", "timeout", "concurrency", "allow_unencrypted"].into_iter().chain(Trust::KEYS) {
            if let Some(at) = section.place_of(key) {
                let title = &section.title;
                let what = "is only for messages that the node posts; remove it, or remove `pull`";
                section.mistake(&at, format!("`{key}` in {title} {what}"));
            }
        }
        section.finish();
        return Some(Way::Fetched(topic, retry));
    }
    if let Some((url, at)) = &url {
        let is_http = url.starts_with("http://") || url.starts_with("https://");
        if !is_http || url.parse::<Address>().is_err() {
            let forms = "http://host:port/path or https://host:port/path, without a user or password";
            section.mistake(at, format!("`url` in {} must be {forms}", section.title));
        } else if !allow_unencrypted && is_exposed(url) {
            let why = "messages would travel unencrypted; write https://, or set `allow_unencrypted` to true";
            section.mistake(at, format!("`url` in {}: {why}", section.title));
        }
    }
    section.finish();
    url.map(|(url, at)| Way::Posted(Box::new(Handler { topic, at, url, secrets, timeout, concurrency, tls, retry })))
}
