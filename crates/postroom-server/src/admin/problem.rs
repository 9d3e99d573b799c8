//! What is said when a request cannot be answered: what was wrong, and what to try.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use postroom::{Error, ErrorKind};
use serde::Serialize;

/// An answer that is an error.
#[derive(Serialize, Debug)]
pub(super) struct Refusal {
    #[serde(skip)]
    status: StatusCode,
    error: String,
    advice: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, error: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { status, error: error.into(), advice: advice.into() }
    }

    pub(super) fn status(&self) -> u16 {
        self.status.as_u16()
    }

    pub(super) fn bad(error: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, advice)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(self)).into_response()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::InvalidInput => Self::bad(error.to_string(), "see the guide for what is allowed"),
            ErrorKind::NotFound => Self::new(StatusCode::NOT_FOUND, error.to_string(), "check the id"),
            _ if error.is_transient() => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "the database cannot be reached", "try again later")
            }
            // Its words may quote values.
            _ => {
                tracing::error!(%error, "the database refused a request to the admin listener");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the database refused it", "see the node's log")
            }
        }
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        let advice = "send a JSON object with content-type: application/json";
        match &rejection {
            // Its words quote the body.
            JsonRejection::JsonDataError(_) => Self::bad("the body has a wrong or a missing field", advice),
            JsonRejection::JsonSyntaxError(_) => Self::bad("the body is not JSON", advice),
            other => Self::new(other.status(), other.body_text(), advice),
        }
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text(), "check what follows the question mark")
    }
}

impl From<PathRejection> for Refusal {
    fn from(_: PathRejection) -> Self {
        Self::bad("the path has a wrong part", "an id is a UUID")
    }
}

pub(super) async fn nowhere(uri: Uri) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, format!("there is nothing at {}", uri.path()), "see the guide for the paths")
}

pub(super) async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    let error = format!("{method} is not what {} is for", uri.path());
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, error, "GET asks, POST changes")
}
