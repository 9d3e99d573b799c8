//! Error answers: what was wrong, and what to try.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use postroom::{Error, ErrorKind};
use serde::Serialize;

/// An error answer.
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

    /// The same error, for one of many messages.
    pub(super) fn at(mut self, place: &str) -> Self {
        self.error = format!("{place}: {}", self.error);
        self
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
            ErrorKind::InvalidInput => Self::bad(error.to_string(), "see /openapi.json for the allowed values"),
            ErrorKind::Duplicate => {
                let advice = "look at that message, or send `ifTaken` as keep or replace";
                Self::new(StatusCode::CONFLICT, error.to_string(), advice)
            }
            ErrorKind::Unsupported => Self::new(StatusCode::NOT_IMPLEMENTED, error.to_string(), "see the guides"),
            ErrorKind::NotFound => Self::new(StatusCode::NOT_FOUND, error.to_string(), "check the id"),
            _ if error.is_transient() => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "the database is unavailable", "try again later")
            }
            // The message may quote values, so only the log gets it.
            _ => {
                tracing::error!(%error, "the database rejected a request to the admin listener");
                Self::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the database rejected the request",
                    "see the log of the node",
                )
            }
        }
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        let advice = "send a JSON object with `content-type: application/json`";
        match &rejection {
            JsonRejection::JsonDataError(error) => {
                let (error, advice) = wrong_field(&error.body_text());
                Self::bad(error, advice)
            }
            JsonRejection::JsonSyntaxError(_) => Self::bad("the body is not JSON", advice),
            other => Self::new(other.status(), other.body_text(), advice),
        }
    }
}

/// Which field is wrong, and what it must be. Leaves out values, because they may be secrets.
fn wrong_field(said: &str) -> (String, String) {
    let said = said.split_once("target type: ").map_or(said, |(_, said)| said);
    let said = said.rsplit_once(" at line ").map_or(said, |(said, _)| said);
    let quoted = |after: &str| said.split_once(after)?.1.split('`').next().map(shortened);
    // The path of the field: `headers.a`, `items[2].lease`.
    let place = said.split_once(": ").map(|(place, _)| place).filter(|place| !place.contains([' ', '`', '"']));
    let within = place.map(|place| format!(" of `{}`", shortened(place))).unwrap_or_default();
    if let Some(field) = quoted("missing field `") {
        return (format!("the field `{field}`{within} is missing"), "add it".to_owned());
    }
    let allowed = said.rsplit_once("expected ").map(|(_, allowed)| allowed.trim_start_matches("one of "));
    if let Some(field) = quoted("unknown field `") {
        // The path ends with the name of the unknown field.
        let known = allowed.unwrap_or("none").replace('`', "");
        return (format!("unknown field `{field}`"), format!("the fields are {known}"));
    }
    let field = place.map_or_else(|| "the body".to_owned(), |place| format!("the field `{}`", shortened(place)));
    let allowed = match allowed {
        Some("u64" | "u32" | "i64" | "a JSON number") => "a whole number",
        Some("a map") => "an object",
        Some("a sequence") => "a list",
        Some(wanted) if wanted.starts_with("struct ") => "an object",
        Some(wanted) => wanted,
        None => "another value",
    };
    (format!("{field} is invalid"), format!("it must be {allowed}"))
}

/// A name, shortened to fit into a line.
fn shortened(name: &str) -> String {
    name.chars().take(100).collect()
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text(), "check the query string")
    }
}

impl From<PathRejection> for Refusal {
    fn from(_: PathRejection) -> Self {
        Self::bad("the path is invalid", "use a UUID as the id")
    }
}

pub(super) async fn nowhere(uri: Uri) -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        format!("there is nothing at {}", uri.path()),
        "see /openapi.json for the paths",
    )
}

pub(super) async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    let error = format!("{} does not support {method}", uri.path());
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, error, "use GET to read and POST to change")
}

#[cfg(test)]
mod tests {
    use super::wrong_field;

    #[test]
    fn a_wrong_field_is_named_without_its_value() {
        let before = "Failed to deserialize the JSON body into the target type: ";
        for (said, error, advice) in [
            ("missing field `topic` at line 1 column 2", "the field `topic` is missing", "add it"),
            (
                "items[2]: missing field `lease` at line 1 column 9",
                "the field `lease` of `items[2]` is missing",
                "add it",
            ),
            (
                "colour: unknown field `colour`, expected one of `topic`, `payload` at line 1 column 9",
                "unknown field `colour`",
                "the fields are topic, payload",
            ),
            (
                "headers.a: invalid type: integer `4111`, expected a string at line 1 column 62",
                "the field `headers.a` is invalid",
                "it must be a string",
            ),
            (
                "maxAttempts: wrong, expected a whole number, 0 or more at line 1 column 62",
                "the field `maxAttempts` is invalid",
                "it must be a whole number, 0 or more",
            ),
            (
                "invalid type: sequence, expected an object at line 1 column 0",
                "the body is invalid",
                "it must be an object",
            ),
        ] {
            assert_eq!(wrong_field(&format!("{before}{said}")), (error.to_owned(), advice.to_owned()));
        }
    }
}
