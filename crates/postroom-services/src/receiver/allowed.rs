//! The topics that a source or a hook may send.

use postroom_core::message::check_name;
use postroom_core::support::error::{Error, Result};

/// The topics that a source or a hook may send. Without a list, every topic is allowed. A name that ends with `*`
/// allows every topic with that prefix.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Allowed(Option<Vec<String>>);

impl Allowed {
    pub(super) fn only<N: Into<String>>(topics: impl IntoIterator<Item = N>) -> Self {
        Self(Some(topics.into_iter().map(Into::into).collect()))
    }

    pub(super) fn check(&self, whose: &str) -> Result<()> {
        let Some(topics) = &self.0 else { return Ok(()) };
        if topics.is_empty() {
            return Err(Error::invalid(format!(
                "{whose} has an empty list of topics; name at least one, or leave it out to allow all"
            )));
        }
        topics.iter().try_for_each(|topic| {
            check_name("a topic", topic)?;
            match topic.trim_end_matches('*').contains('*') || topic.ends_with("**") {
                true => Err(Error::invalid(format!(
                    "the topic {topic:?} is not valid: `*` is allowed only as the last character"
                ))),
                false => Ok(()),
            }
        })
    }

    pub(super) fn admits(&self, topic: &str) -> bool {
        let fits = |allowed: &String| match allowed.strip_suffix('*') {
            Some(beginning) => topic.starts_with(beginning),
            None => allowed == topic,
        };
        self.0.as_ref().is_none_or(|topics| topics.iter().any(fits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_named_whole_or_by_its_beginning() {
        let allowed = Allowed::only(["order.placed", "payment.*"]);
        allowed.check("orders").unwrap();
        let admits = ["order.placed", "order.placed.again", "payment.done", "payment", "Order.placed"];
        assert_eq!(admits.map(|topic| allowed.admits(topic)), [true, false, true, false, false]);
        assert!(Allowed::default().admits("anything"));
        for bad in [vec![], vec!["a*b"], vec!["a**"], vec![""]] {
            assert!(Allowed::only(bad.clone()).check("orders").is_err(), "{bad:?}");
        }
    }
}
