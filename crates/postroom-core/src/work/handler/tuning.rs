//! Settings of one handler, made where it is registered.

use std::collections::HashMap;
use std::sync::Arc;

use crate::queue::retry::{RetryPolicies, RetryPolicy};
use crate::support::error::{Error, Result};
use crate::work::handler::{Backend, Handlers};

/// The settings of handlers, by topic.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tuning {
    retries: HashMap<String, RetryPolicy>,
    concurrency: HashMap<String, usize>,
    /// The topics that the next setting applies to.
    last: Vec<String>,
}

impl Tuning {
    /// Makes the next settings apply to these topics.
    pub(crate) fn about(&mut self, topics: Vec<String>) {
        self.last = topics;
    }

    /// Returns how many messages of a topic may run at once, if its handler sets it.
    pub(crate) fn concurrency(&self, topic: &str) -> Option<usize> {
        self.concurrency.get(topic).copied()
    }

    /// Returns a worker's policies together with those of the handlers.
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
            let why = format!("Handlers::{what} applies to the handler before it, and there is none with a topic");
            return Err(Error::invalid(why));
        }
        Ok(self.last.clone())
    }
}

impl<B: Backend> Handlers<B> {
    /// Sets the retry policy for the handler before it, whatever the worker's options say about its topic. After
    /// [`calls`](Self::calls) it applies to all methods of the object.
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

    /// Sets how many messages of the handler before it run at once, whatever share the worker's options give a topic.
    /// It is never more than the worker runs in total. Blocking handlers run one after the other anyway. After
    /// [`calls`](Self::calls) it applies to each method of the object.
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
                self.refuse(Error::invalid(format!("the concurrency of the handler of {topics} must be at least 1")));
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
        let none = "applies to the handler before it, and there is none with a topic";
        let policy = RetryPolicy::handlers;
        assert_eq!(refused(Handlers::new().retry(policy())), format!("Handlers::retry {none}"));
        assert_eq!(refused(Handlers::new().concurrency(1)), format!("Handlers::concurrency {none}"));
        let fallback = Handlers::new().on_topic("a", nothing).fallback(nothing);
        assert_eq!(refused(fallback.concurrency(1)), format!("Handlers::concurrency {none}"));
        assert!(refused(Handlers::new().on_topic("a", nothing).retry(policy().base(Duration::ZERO))).contains("delay"));
        let never = Handlers::new().on_topic("a", nothing).concurrency(0);
        assert_eq!(refused(never), "the concurrency of the handler of a must be at least 1");
    }
}
