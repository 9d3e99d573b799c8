//! Webhooks and events of foreign peers: they are verified in their own way, then received like every other message.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use http::HeaderMap;

use super::allowed::Allowed;
use super::{Authenticated, Receiver, Reply, arrived};
use crate::foreign::{CloudEvent, WebhookScheme};
use crate::wire::grammar;
use postroom_core::message::{Incoming, Kind};
use postroom_core::store::Store;
use postroom_core::support::clock::Timestamp;
use postroom_core::support::error::{Error, Result};
use postroom_core::telemetry::{self, Distrust};
use postroom_core::work::handler::Backend;

/// The path prefix of webhooks; the hook's name follows.
pub(crate) const HOOKS_PATH: &str = "/_rf/hooks/";

/// An endpoint for the webhooks of one service: `/_rf/hooks/NAME`.
///
/// Messages that arrive there are recognised by the hook's name and the provider's own id.
///
/// ```
/// use postroom::services::{Hook, ReceiverOptions};
/// use postroom::webhooks::{WebhookScheme, WebhookSecret};
///
/// // Webhooks for this hook come in at `/_rf/hooks/github`.
/// let secret = WebhookSecret::parse("an example secret, long enough to be one")?;
/// let options = ReceiverOptions::default().hook(Hook::new("github", WebhookScheme::github([secret])?));
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Hook {
    name: String,
    scheme: Option<WebhookScheme>,
    cloud_events: bool,
    topics: Allowed,
}

impl Hook {
    /// Creates a hook for signed webhooks.
    pub fn new(name: impl Into<String>, scheme: WebhookScheme) -> Self {
        Self { name: name.into(), scheme: Some(scheme), cloud_events: false, topics: Allowed::default() }
    }

    /// Creates a hook for unsigned CloudEvents. Use it only where nobody else can reach the listener.
    pub fn unsigned_cloud_events(name: impl Into<String>) -> Self {
        Self { name: name.into(), scheme: None, cloud_events: true, topics: Allowed::default() }
    }

    /// Accepts CloudEvents as well. They are recognised by their own id and source, which must not be the name of a
    /// [`Source`](crate::Source) or of another hook. This works only with
    /// [`standard_webhooks`](WebhookScheme::standard_webhooks), and only in structured mode: in binary mode the id
    /// and the source are headers, and the signature does not cover headers.
    #[must_use]
    pub fn cloud_events(mut self) -> Self {
        self.cloud_events = true;
        self
    }

    /// Allows only these topics. A name that ends with `*` allows every topic with that prefix. By default, every
    /// topic is allowed.
    #[must_use]
    pub fn topics<N: Into<String>>(mut self, topics: impl IntoIterator<Item = N>) -> Self {
        self.topics = Allowed::only(topics);
        self
    }

    pub(super) fn checked(self) -> Result<(String, Self)> {
        grammar::service("a hook's name", &self.name)?;
        self.topics.check(&self.name)?;
        if let Some(scheme) = self.scheme.as_ref().filter(|scheme| self.cloud_events && !scheme.signs_events()) {
            let why = "does not support CloudEvents: their id and source would not be signed";
            return Err(Error::invalid(format!("the hook {}: {} {why}", self.name, scheme.name())));
        }
        Ok((self.name.clone(), self))
    }
}

/// What a provider sent, converted from its own format.
struct Hooked {
    source: String,
    incoming: Incoming,
    since: Option<Timestamp>,
}

impl<B: Backend> Receiver<B> {
    pub(crate) fn hook(&self, path: &str) -> Option<Arc<Hook>> {
        self.hooks().get(path.strip_prefix(HOOKS_PATH)?).cloned()
    }

    pub(super) fn hooks(&self) -> RwLockReadGuard<'_, HashMap<String, Arc<Hook>>> {
        self.0.hooks.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn hooks_mut(&self) -> RwLockWriteGuard<'_, HashMap<String, Arc<Hook>>> {
        self.0.hooks.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the hook of the same name, for instance to change its secrets. It returns false when there is no such
    /// hook, and an error when the hook is not valid. Requests that are being verified still use the old secrets.
    ///
    /// ```
    /// use postroom::Handlers;
    /// use postroom::services::{Hook, Receiver, ReceiverOptions};
    /// use postroom::store::{Memory, MemoryStore};
    /// use postroom::webhooks::{WebhookScheme, WebhookSecret};
    ///
    /// let hook = |secret: &str| {
    ///     Ok::<_, postroom::Error>(Hook::new("github", WebhookScheme::github([WebhookSecret::parse(secret)?])?))
    /// };
    /// let options = ReceiverOptions::default().hook(hook("an example secret, long enough to be one")?);
    /// let receiver = Receiver::<Memory>::with("shop", MemoryStore::new(), Handlers::new(), [], options)?;
    /// assert!(receiver.replace_hook(hook("another example, that is as long as it")?)?);
    /// # Ok::<(), postroom::Error>(())
    /// ```
    pub fn replace_hook(&self, hook: Hook) -> Result<bool> {
        let (name, hook) = hook.checked()?;
        Ok(self.hooks_mut().get_mut(&name).map(|known| *known = Arc::new(hook)).is_some())
    }

    /// Removes this hook, so that it accepts nothing more. It returns false when there was no such hook.
    ///
    /// ```
    /// use postroom::Handlers;
    /// use postroom::services::{Hook, Receiver, ReceiverOptions};
    /// use postroom::store::{Memory, MemoryStore};
    ///
    /// let options = ReceiverOptions::default().hook(Hook::unsigned_cloud_events("broker"));
    /// let receiver = Receiver::<Memory>::with("shop", MemoryStore::new(), Handlers::new(), [], options)?;
    /// assert!(receiver.remove_hook("broker") && !receiver.remove_hook("broker"));
    /// # Ok::<(), postroom::Error>(())
    /// ```
    pub fn remove_hook(&self, name: &str) -> bool {
        self.hooks_mut().remove(name).is_some()
    }

    /// Receives a request that came to a hook. It needs the whole body to verify the request.
    pub(crate) async fn take_hook(&self, hook: &Hook, headers: &HeaderMap, body: &Bytes) -> Reply {
        let hooked = match self.verify_hook(hook, headers, body) {
            Ok(hooked) => hooked,
            Err(reply) => return reply,
        };
        if hooked.since.is_some_and(|since| since < self.now().minus(self.0.options.window)) {
            return Reply::too_old();
        }
        if !hook.topics.admits(&hooked.incoming.topic) {
            telemetry::topic_refused(self.0.store.name(), &hook.name, &hooked.incoming.topic);
            return Reply::not_allowed(&hooked.incoming.topic);
        }
        self.receive(&Authenticated::by_webhook(&hooked.source), hooked.incoming).await
    }

    fn verify_hook(&self, hook: &Hook, headers: &HeaderMap, body: &[u8]) -> Result<Hooked, Reply> {
        let malformed = |error: Error| Reply::malformed(&error);
        if let Some(scheme) = &hook.scheme {
            let verified = scheme.verify(headers, body, self.wall()).map_err(|refused| {
                let reason = refused.reason().as_str();
                telemetry::hook_distrusted(self.0.store.name(), &hook.name, reason);
                Reply::unauthorized()
            })?;
            // Headers are not signed, so they must not turn the request into another message.
            if !hook.cloud_events || !CloudEvent::is_structured(headers) {
                let message = verified.message().map_err(malformed)?;
                let incoming = arrived(&hook.name, message.id, Kind::Signal, message.topic, message.payload);
                let incoming = incoming.map_err(malformed)?;
                incoming.check().map_err(malformed)?;
                return Ok(Hooked { source: hook.name.clone(), incoming, since: message.enqueued_at });
            }
        }
        let event = CloudEvent::read(headers, body).map_err(malformed)?;
        let is_another_hook = self.hooks().contains_key(&event.source) && event.source != hook.name;
        if is_another_hook || self.0.sources().contains_key(&event.source) {
            telemetry::distrusted(self.0.store.name(), &event.id, &event.source, Distrust::UnknownSource);
            return Err(Reply::unauthorized());
        }
        let incoming = arrived(&event.source, event.id, Kind::Signal, event.topic, event.payload);
        let mut incoming = incoming.map_err(malformed)?;
        incoming.headers = event.headers;
        incoming.check().map_err(malformed)?;
        Ok(Hooked { source: event.source, incoming, since: event.time })
    }
}

#[cfg(test)]
mod tests;
