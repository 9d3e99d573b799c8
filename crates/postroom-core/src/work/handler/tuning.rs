//! What is said of one handler where it is registered.

use std::collections::HashMap;
use std::sync::Arc;

use crate::queue::retry::{RetryPolicies, RetryPolicy};
use crate::support::error::{Error, Result};
use crate::work::handler::{Backend, Handlers};

/// What is said of handlers, by topic.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tuning {
    retries: HashMap<String, RetryPolicy>,
    concurrency: HashMap<String, usize>,
    /// Whom the next word is about.
    last: Vec<String>,
}

impl Tuning {
    /// What is said next is about these.
    pub(crate) fn about(&mut self, topics: Vec<String>) {
        self.last = topics;
    }

    /// How many messages of a topic may run at once, if its handler says so.
    pub(crate) fn concurrency(&self, topic: &str) -> Option<usize> {
        self.concurrency.get(topic).copied()
    }

    /// A worker's policies, with those of the handlers.
    pub(crate) fn applied(&self, policies: &Arc<RetryPolicies>) -> Arc<RetryPolicies> {
        let with =
            |policies: RetryPolicies, (topic, policy): (&String, &RetryPolicy)| policies.handler(topic, policy.clone());
        if self.retries.is_empty() {
            policies.clone()
        } else {
            Arc::new(self.retries.iter().fold((**policies).clone(), with))
        }
    }

    fn last(&self, what: &str) -> Result<Vec<String>> {
        if self.last.is_empty() {
            let why = format!("Handlers::{what} is about the handler before it, and there is none that has a topic");
            return Err(Error::invalid(why));
        }
        Ok(self.last.clone())
    }
}

impl<B: Backend> Handlers<B> {
    /// When the messages of the handler before this are tried again, whatever the worker's options say of its topic.
    /// After [`calls`](Self::calls) it is about all methods of the object.
    ///
    /// ```
    /// use postroom::{Ctx, Event, HandlerResult, Handlers, RetryPolicy, Worker};
    /// use postroom::store::{Memory, MemoryStore};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize, Event)]
    /// #[event("mail.due")]
    /// struct Mail { to: String }
    ///
    /// async fn mail(_: &mut Ctx<Memory>, _: Mail) -> HandlerResult<()> { Ok(()) }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let handlers = Handlers::new().on(mail).retry(RetryPolicy::handlers().attempts(3)).concurrency(2);
    /// Worker::outbox(MemoryStore::new(), handlers).run(async { /* until this is ready */ }).await?;
    ///
    /// // Without a handler before it, the worker does not start.
    /// let nobodys = Handlers::<Memory>::new().retry(RetryPolicy::handlers());
    /// assert!(Worker::outbox(MemoryStore::new(), nobodys).run(async {}).await.is_err());
    /// # Ok::<(), postroom::Error>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        let said = policy.checked().and_then(|policy| Ok((self.tuning.last("retry")?, policy)));
        match said {
            Ok((topics, policy)) => {
                self.tuning.retries.extend(topics.into_iter().map(|topic| (topic, policy.clone())));
            }
            Err(error) => self.refuse(error),
        }
        self
    }

    /// How many messages of the handler before this run at once, whatever share of the worker its options give a topic;
    /// never more than the worker runs in all. Blocking handlers run one after the other anyway. After
    /// [`calls`](Self::calls) it is about each method of the object.
    ///
    /// ```
    /// use postroom::{Ctx, Event, HandlerResult, Handlers};
    /// use postroom::store::Memory;
    ///
    /// #[derive(serde::Serialize, serde::Deserialize, Event)]
    /// #[event("report.due")]
    /// struct Report { month: u32 }
    ///
    /// async fn report(_: &mut Ctx<Memory>, _: Report) -> HandlerResult<()> { Ok(()) }
    ///
    /// // One report at a time, however many are due.
    /// let handlers = Handlers::new().on(report).concurrency(1);
    /// ```
    #[must_use]
    pub fn concurrency(mut self, messages: usize) -> Self {
        match self.tuning.last("concurrency") {
            Ok(topics) if messages == 0 => {
                let topics = topics.join(", ");
                self.refuse(Error::invalid(format!(
                    "the handler of {topics} may run for no message: concurrency is 0"
                )));
            }
            Ok(topics) => self.tuning.concurrency.extend(topics.into_iter().map(|topic| (topic, messages))),
            Err(error) => self.refuse(error),
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::message::Message;
    use crate::work::handler::{Ctx, HandlerResult, Memory};

    async fn nothing(_: &mut Ctx<Memory>, _: Arc<Message>) -> HandlerResult<Option<String>> {
        Ok(None)
    }

    fn refused(handlers: Handlers<Memory>) -> String {
        handlers.checked().unwrap_err().to_string()
    }

    #[test]
    fn what_is_said_of_a_handler_goes_before_the_workers_options() {
        let (own, of_worker) = (RetryPolicy::handlers().attempts(3), RetryPolicy::handlers().attempts(9));
        let handlers = Handlers::new().on_topic("a", nothing).retry(own).concurrency(2).on_topic("b", nothing);
        let handlers = handlers.state(7).concurrency(5).checked().unwrap();
        let policies = RetryPolicies::default().handlers(of_worker.clone()).handler("a", of_worker);
        let policies = handlers.tuning.applied(&Arc::new(policies));
        let attempts = ["a", "b"].map(|topic| policies.of(topic, None).attempts_max());
        assert_eq!(attempts, [3, 9]);
        assert_eq!(["a", "b", "c"].map(|topic| handlers.tuning.concurrency(topic)), [Some(2), Some(5), None]);
        assert_eq!(handlers.shared().tuning.concurrency("a"), Some(2));
    }

    #[test]
    fn what_is_said_of_nobody_is_refused() {
        let none = "is about the handler before it, and there is none that has a topic";
        let policy = RetryPolicy::handlers;
        assert_eq!(refused(Handlers::new().retry(policy())), format!("Handlers::retry {none}"));
        assert_eq!(refused(Handlers::new().concurrency(1)), format!("Handlers::concurrency {none}"));
        let fallback = Handlers::new().on_topic("a", nothing).fallback(nothing);
        assert_eq!(refused(fallback.concurrency(1)), format!("Handlers::concurrency {none}"));
        assert!(refused(Handlers::new().on_topic("a", nothing).retry(policy().base(Duration::ZERO))).contains("delay"));
        let never = Handlers::new().on_topic("a", nothing).concurrency(0);
        assert_eq!(refused(never), "the handler of a may run for no message: concurrency is 0");
    }
}
