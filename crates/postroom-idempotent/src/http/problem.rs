//! The answer to a request that is not handled: a problem as in RFC 9457.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};

use postroom_core::support::error::Error;

/// A request that was not handled because of its `Idempotency-Key`, or because the key is missing. The answer is
/// `application/problem+json` and says what to do. [`IdempotentTx`](crate::IdempotentTx) uses it if there is no
/// layer.
///
/// ```
/// use axum::response::IntoResponse;
/// use postroom::idempotent::{IdempotencyProblem, IdempotentTx};
/// use postroom::store::Memory;
///
/// // Without a key the order is still placed, outside any transaction of the layer.
/// async fn place(tx: Result<IdempotentTx<Memory>, IdempotencyProblem>) -> impl IntoResponse {
///     match tx {
///         Ok(_) => "once",
///         Err(_) => "perhaps twice",
///     }
/// }
/// # let _ = place;
/// ```
#[derive(Debug)]
pub struct IdempotencyProblem {
    status: StatusCode,
    title: &'static str,
    detail: &'static str,
    retry_after: Option<&'static str>,
}

impl IdempotencyProblem {
    const fn new(status: StatusCode, title: &'static str, detail: &'static str) -> Self {
        Self { status, title, detail, retry_after: None }
    }

    const fn later(mut self) -> Self {
        self.retry_after = Some("1");
        self
    }

    pub(super) const NO_KEY: Self = Self::new(
        StatusCode::BAD_REQUEST,
        "Idempotency-Key is missing",
        "Send the request with an Idempotency-Key header: a new UUID for each operation, and the same one again \
             when the request is repeated.",
    );

    pub(super) const MALFORMED_KEY: Self = Self::new(
        StatusCode::BAD_REQUEST,
        "Idempotency-Key is malformed",
        "Send one Idempotency-Key header with a string of 1 to 255 printable ASCII characters, in double quotes.",
    );

    pub(super) const UNREADABLE: Self =
        Self::new(StatusCode::BAD_REQUEST, "The body cannot be read", "Send the request again, as a whole.");

    pub(super) const TOO_SLOW: Self = Self::new(
        StatusCode::REQUEST_TIMEOUT,
        "The body did not arrive in time",
        "Send the request again, and faster.",
    );

    pub(super) const TOO_LARGE: Self = Self::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "The body is too large",
        "A request with an Idempotency-Key is compared as a whole. Send a smaller one.",
    );

    pub(super) const IN_PROGRESS: Self = Self::new(
        StatusCode::CONFLICT,
        "A request with this Idempotency-Key is being handled",
        "Wait, then send the same request again to get its response.",
    )
    .later();

    pub(super) const OVERLOADED: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "Too many requests are being handled",
        "Nothing of this one was stored. Send it again later, with the same key.",
    )
    .later();

    pub(super) const DIFFERS: Self = Self::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "Idempotency-Key was used for another request",
        "Use a new key for a new request. A repeated request must have the same method, target and body.",
    );

    pub(super) const RETIRED: Self = Self::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "Idempotency-Key is no longer valid",
        "An operator took this key out of use. Use a new one.",
    );

    pub(super) const TIMED_OUT: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "The request took too long",
        "Nothing of it was stored. Send the same request again, with the same key.",
    )
    .later();

    pub(super) fn database(error: &Error) -> Self {
        let status = match error.is_transient() {
            true => StatusCode::SERVICE_UNAVAILABLE,
            false => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let detail = "Send the same request again, with the same key: it has its effect once.";
        Self::new(status, "The request could not be stored", detail).later()
    }

    pub(super) const NOT_KEPT: Self = Self::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "The response cannot be stored",
        "The response is too large to be stored, or never ends. Nothing of the request was stored. The service \
             must allow larger responses, or answer this request without an Idempotency-Key.",
    );

    pub(super) const UNKNOWN_RESPONSE: Self = Self::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "The stored response cannot be read",
        "The request was handled before. Do not send it again; ask for its result in another way.",
    );

    pub(super) const NO_LAYER: Self = Self::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "The service is not set up for Idempotency-Key",
        "Nothing was done. The service must put an IdempotencyKeyLayer for this database around the route.",
    );
}

impl IntoResponse for IdempotencyProblem {
    fn into_response(self) -> Response {
        let problem = serde_json::json!({
            "title": self.title,
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let mut response = Response::new(Body::from(problem.to_string()));
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(seconds));
        }
        response
    }
}
