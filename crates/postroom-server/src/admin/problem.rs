//! Error answers: what was wrong, and what to try, as problem details (RFC 9457).

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use postroom::{Error, ErrorKind};
use serde::{Serialize, Serializer};

/// An error answer.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    detail: String,
    advice: String,
    /// The path of the field that is wrong: `headers.a`, `messages[2].topic`.
    field: Option<String>,
    /// The message that has the unique key.
    kept_out_by: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Details<'a> {
    title: &'a str,
    detail: &'a str,
    advice: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_out_by: Option<&'a str>,
}

/// A whole answer.
#[derive(Serialize)]
struct Answer<'a> {
    status: u16,
    #[serde(flatten)]
    refusal: &'a Refusal,
}

/// A field that is wrong, and what is allowed.
#[derive(Serialize)]
struct FieldError<'a> {
    field: &'a str,
    detail: &'a str,
}

impl Serialize for Refusal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let wrong = |field| FieldError { field, detail: &self.advice };
        let details = Details {
            title: self.status.canonical_reason().unwrap_or("Error"),
            detail: &self.detail,
            advice: &self.advice,
            errors: self.field.as_deref().map(wrong).into_iter().collect(),
            kept_out_by: self.kept_out_by.as_deref(),
        };
        details.serialize(serializer)
    }
}

impl Refusal {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), advice: advice.into(), field: None, kept_out_by: None }
    }

    pub(super) fn status(&self) -> u16 {
        self.status.as_u16()
    }

    /// The same error, for one of many messages.
    pub(super) fn at(mut self, place: &str) -> Self {
        self.detail = format!("{place}: {}", self.detail);
        self.field = self.field.map(|field| format!("{place}.{field}"));
        self
    }

    /// Names the field that is wrong.
    fn of_field(mut self, field: Option<String>) -> Self {
        self.field = field;
        self
    }

    /// Names the message that has the unique key.
    pub(super) fn kept_out_by(mut self, id: impl ToString) -> Self {
        self.kept_out_by = Some(id.to_string());
        self
    }

    pub(super) fn bad(error: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, advice)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let answer = Json(Answer { status: self.status(), refusal: &self }).into_response();
        (self.status, [(CONTENT_TYPE, "application/problem+json")], answer.into_body()).into_response()
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
                let Wrong { field, detail, advice } = wrong_field(&error.body_text());
                Self::bad(detail, advice).of_field(field)
            }
            JsonRejection::JsonSyntaxError(_) => Self::bad("the body is not JSON", advice),
            other => Self::new(other.status(), other.body_text(), advice),
        }
    }
}

/// What is wrong in a body.
#[derive(PartialEq, Eq, Debug)]
struct Wrong {
    field: Option<String>,
    detail: String,
    advice: String,
}

/// Which field is wrong, and what it must be. Leaves out values, because they may be secrets.
fn wrong_field(said: &str) -> Wrong {
    let said = said.split_once("target type: ").map_or(said, |(_, said)| said);
    let said = said.rsplit_once(" at line ").map_or(said, |(said, _)| said);
    let quoted = |after: &str| said.split_once(after)?.1.split('`').next().map(shortened);
    // The path of the field: `headers.a`, `items[2].lease`.
    let place = said.split_once(": ").map(|(place, _)| place).filter(|place| !place.contains([' ', '`', '"']));
    let place = place.map(shortened);
    if let Some(field) = quoted("missing field `") {
        let within = place.as_ref().map(|place| format!(" of `{place}`")).unwrap_or_default();
        let detail = format!("the field `{field}`{within} is missing");
        let field = place.map_or(field.clone(), |place| format!("{place}.{field}"));
        return Wrong { field: Some(field), detail, advice: "add it".to_owned() };
    }
    let allowed = said.rsplit_once("expected ").map(|(_, allowed)| allowed.trim_start_matches("one of "));
    if let Some(field) = quoted("unknown field `") {
        // The path ends with the name of the unknown field.
        let known = allowed.unwrap_or("none").replace('`', "");
        let (detail, advice) = (format!("unknown field `{field}`"), format!("the fields are {known}"));
        return Wrong { field: Some(place.unwrap_or(field)), detail, advice };
    }
    let detail = place.as_ref().map_or_else(|| "the body".to_owned(), |place| format!("the field `{place}`"));
    let allowed = match allowed {
        Some("u64" | "u32" | "i64" | "a JSON number") => "a whole number",
        Some("a map") => "an object",
        Some("a sequence") => "a list",
        Some(wanted) if wanted.starts_with("struct ") => "an object",
        Some(wanted) => wanted,
        None => "another value",
    };
    Wrong { field: place, detail: format!("{detail} is invalid"), advice: format!("it must be {allowed}") }
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
    use super::{Wrong, wrong_field};

    #[test]
    fn a_wrong_field_is_named_without_its_value() {
        let before = "Failed to deserialize the JSON body into the target type: ";
        for (said, field, detail, advice) in [
            ("missing field `topic` at line 1 column 2", Some("topic"), "the field `topic` is missing", "add it"),
            (
                "items[2]: missing field `lease` at line 1 column 9",
                Some("items[2].lease"),
                "the field `lease` of `items[2]` is missing",
                "add it",
            ),
            (
                "colour: unknown field `colour`, expected one of `topic`, `payload` at line 1 column 9",
                Some("colour"),
                "unknown field `colour`",
                "the fields are topic, payload",
            ),
            (
                "headers.a: invalid type: integer `4111`, expected a string at line 1 column 62",
                Some("headers.a"),
                "the field `headers.a` is invalid",
                "it must be a string",
            ),
            (
                "maxAttempts: wrong, expected a whole number, 0 or more at line 1 column 62",
                Some("maxAttempts"),
                "the field `maxAttempts` is invalid",
                "it must be a whole number, 0 or more",
            ),
            (
                "invalid type: sequence, expected an object at line 1 column 0",
                None,
                "the body is invalid",
                "it must be an object",
            ),
        ] {
            let wrong = Wrong { field: field.map(Into::into), detail: detail.into(), advice: advice.into() };
            assert_eq!(wrong_field(&format!("{before}{said}")), wrong);
        }
    }
}
