//! How requests with an `Idempotency-Key` are taken.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::request::Parts;

use postroom_core::support::error::{Error, Result};

pub(super) type Scope = dyn Fn(&Parts) -> String + Send + Sync;

/// How an [`IdempotencyKeyLayer`](crate::IdempotencyKeyLayer) takes requests.
///
/// ```
/// use postroom::IdempotencyKeyOptions;
///
/// // Whoever authenticated the request has said who it is.
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
    /// Refuses requests without a key, with 400. Otherwise they pass as if there were no layer, which is the default.
    #[must_use]
    pub fn required(mut self, required: bool) -> Self {
        self.required = required;
        self
    }

    /// The methods that keys are honoured for; POST and PATCH unless told otherwise. All others pass.
    #[must_use]
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.methods = methods.into_iter().collect();
        self
    }

    /// Who is calling: a key that two callers happen to use is two keys, and nobody is given another's response. Only
    /// a digest of it is stored.
    ///
    /// Unless told otherwise it is the `Authorization` header; everybody without one is the same caller. Say it
    /// yourself where callers are known by a cookie or a certificate, where tokens are renewed between a request and
    /// its repetition, and for Basic authentication: from a digest a weak password can be guessed.
    #[must_use]
    pub fn scope(mut self, scope: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.scope = Some(Arc::new(scope));
        self
    }

    /// Larger request bodies are refused with 413; 1 MiB unless told otherwise.
    #[must_use]
    pub fn request_max(mut self, bytes: usize) -> Self {
        self.request_max = bytes;
        self
    }

    /// Larger response bodies cannot be kept: the request is rolled back and answered with 500. 1 MiB unless told
    /// otherwise.
    #[must_use]
    pub fn response_max(mut self, bytes: usize) -> Self {
        self.response_max = bytes;
        self
    }

    /// What takes longer, with the whole response body, is rolled back and answered with 503; 30 seconds unless told
    /// otherwise. A request whose body takes longer to come is answered with 408. On SQLite five seconds are the limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// So many requests with keys are handled at once, the others are answered with 503; 256 unless told otherwise.
    #[must_use]
    pub fn in_flight(mut self, requests: usize) -> Self {
        self.in_flight = requests;
        self
    }

    pub(super) fn checked(self) -> Result<Self> {
        if self.timeout.is_zero() || self.in_flight == 0 {
            return Err(Error::invalid("a request must be given longer than zero, and there must be room for one"));
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
