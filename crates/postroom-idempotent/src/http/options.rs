//! The options for requests with an `Idempotency-Key`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::request::Parts;

use postroom_core::support::error::{Error, Result};

pub(super) type Scope = dyn Fn(&Parts) -> String + Send + Sync;

/// The options of an [`IdempotencyKeyLayer`](crate::IdempotencyKeyLayer).
///
/// ```
/// use postroom::idempotent::IdempotencyKeyOptions;
///
/// // The authentication layer has stored who sends the request.
/// #[derive(Clone)]
/// struct User(String);
///
/// let options = IdempotencyKeyOptions::default()
///     .required(true)
///     .scope(|request| request.extensions.get().map(|User(name)| name.clone()).unwrap_or_default());
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct IdempotencyKeyOptions {
    pub(super) required: bool,
    pub(super) methods: Vec<Method>,
    pub(super) scope: Option<Arc<Scope>>,
    pub(super) request_max: usize,
    pub(super) response_max: usize,
    pub(super) timeout: Duration,
    pub(super) in_flight: usize,
}

impl Default for IdempotencyKeyOptions {
    fn default() -> Self {
        Self {
            required: false,
            methods: vec![Method::POST, Method::PATCH],
            scope: None,
            request_max: 1024 * 1024,
            response_max: 1024 * 1024,
            timeout: Duration::from_secs(30),
            in_flight: 256,
        }
    }
}

impl IdempotencyKeyOptions {
    postroom_core::setters! {
        /// Sets whether requests without a key are refused with 400. By default, they pass as if there were no layer.
        pub fn required(mut self, required: bool) { self.required = required; }

        /// Sets the methods that keys apply to; POST and PATCH by default. All other methods pass.
        pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) {
            self.methods = methods.into_iter().collect();
        }

        /// Sets how the caller is identified. If two callers use the same key, it counts as two keys, so nobody gets
        /// another caller's response. Only a digest of the identity is stored.
        ///
        /// By default it is the `Authorization` header; all clients without one are the same caller. Set it yourself if
        /// callers are identified by a cookie or a certificate, if tokens are renewed between a request and its
        /// repetition, or for Basic authentication, because a weak password can be guessed from a digest.
        pub fn scope(mut self, scope: impl Fn(&Parts) -> String + Send + Sync + 'static) {
            self.scope = Some(Arc::new(scope));
        }

        /// Sets the largest request body; 1 MiB by default. Larger ones are refused with 413.
        pub fn request_max(mut self, bytes: usize) { self.request_max = bytes; }

        /// Sets the largest response body that can be stored; 1 MiB by default. With a larger one, the request is
        /// rolled back and answered with 500.
        pub fn response_max(mut self, bytes: usize) { self.response_max = bytes; }

        /// Sets the time limit for a request, including the whole response body; 30 seconds by default. A request that
        /// takes longer is rolled back and answered with 503. If its body takes longer to arrive, it is answered with
        /// 408. On SQLite the limit is five seconds.
        pub fn timeout(mut self, timeout: Duration) { self.timeout = timeout; }

        /// Handles at most this many requests with keys at once; 256 by default. Further requests are answered with
        /// 503.
        pub fn in_flight(mut self, requests: usize) { self.in_flight = requests; }
    }

    pub(super) fn checked(self) -> Result<Self> {
        if self.timeout.is_zero() || self.in_flight == 0 {
            return Err(Error::invalid("timeout and in_flight must be more than zero"));
        }
        Ok(self)
    }
}

impl fmt::Debug for IdempotencyKeyOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyKeyOptions")
            .field("required", &self.required)
            .field("methods", &self.methods)
            .field("request_max", &self.request_max)
            .field("response_max", &self.response_max)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
