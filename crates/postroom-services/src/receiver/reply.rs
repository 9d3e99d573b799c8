//! A receiver's answer to a request, independent of the transport.

use std::time::Duration;

use crate::wire::Answer;
use crate::wire::envelope;
use postroom_core::support::error::{Error, ErrorKind};

/// A sender waits this long for a duplicate in progress, or for an overloaded receiver.
const SOON: Duration = Duration::from_secs(1);

/// A sender waits this long for a newer release of the receiver.
const RELEASE: Duration = Duration::from_secs(30);

/// A receiver's answer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Reply {
    /// An HTTP status code, on every transport.
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Body,
}

/// The content of an answer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Body {
    pub(crate) duplicate: bool,
    /// The handler's answer.
    pub(crate) response: Option<String>,
    pub(crate) error: Option<String>,
}

impl Reply {
    pub(crate) fn handled(response: Option<String>) -> Self {
        Self::said(200, false, response)
    }

    pub(crate) fn duplicate(response: Option<String>) -> Self {
        Self::said(200, true, response)
    }

    pub(crate) fn queued(duplicate: bool) -> Self {
        Self::said(202, duplicate, None)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::error(401, "the request could not be verified")
    }

    pub(crate) fn malformed(error: &Error) -> Self {
        Self::error(400, &error.to_string())
    }

    pub(crate) fn no_handler(topic: &str) -> Self {
        Self::error(404, &format!("there is no handler for {topic}"))
    }

    pub(crate) fn not_allowed(topic: &str) -> Self {
        Self::error(403, &format!("this source may not send {topic}"))
    }

    pub(crate) fn busy() -> Self {
        Self { retry_after: Some(SOON), ..Self::error(409, "this message is being handled at the moment") }
    }

    pub(crate) fn too_old() -> Self {
        Self::error(410, "the message is older than the dedupe window of this receiver")
    }

    pub(crate) fn expired() -> Self {
        Self::error(410, "the message is past its time to live")
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::error(413, &format!("the request is larger than {limit} bytes"))
    }

    pub(crate) fn differs() -> Self {
        Self::error(422, "this id was used before with different content")
    }

    pub(crate) fn refused(why: &str) -> Self {
        Self::error(422, why)
    }

    /// The handler failed, or the cause is unknown.
    pub(crate) fn failed(why: &str) -> Self {
        Self::error(500, why)
    }

    pub(crate) fn overloaded() -> Self {
        Self { retry_after: Some(SOON), ..Self::error(503, "too many messages are being handled; come back later") }
    }

    /// The handler asked to get the message later.
    pub(crate) fn later(after: Option<Duration>) -> Self {
        Self { retry_after: Some(after.unwrap_or(SOON)), ..Self::error(503, "the handler asked to come back later") }
    }

    /// A newer release of this service will accept the message.
    pub(crate) fn not_yet(why: &str) -> Self {
        Self { retry_after: Some(RELEASE), ..Self::error(503, why) }
    }

    pub(crate) fn dead() -> Self {
        Self::error(503, "this message is dead; an operator can requeue it")
    }

    /// The database failed.
    pub(crate) fn of_database(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Unavailable | ErrorKind::NotCommitted | ErrorKind::Closed => {
                Self { retry_after: Some(SOON), ..Self::error(503, "the database is unavailable at the moment") }
            }
            // The database's error text may quote values.
            _ => Self::failed("the database refused the message; see the receiver's log"),
        }
    }

    fn said(status: u16, duplicate: bool, response: Option<String>) -> Self {
        Self { status, retry_after: None, body: Body { duplicate, response, error: None } }
    }

    pub(crate) fn error(status: u16, why: &str) -> Self {
        let body = Body { duplicate: false, response: None, error: Some(why.to_owned()) };
        Self { status, retry_after: None, body }
    }

    pub(crate) fn is_success(&self) -> bool {
        matches!(self.status, 200..300)
    }

    pub(crate) fn to_answer(&self) -> Answer {
        let payload = self.body.response.as_deref().and_then(|text| envelope::Reply::of(text).ok());
        Answer {
            acknowledged: self.is_success(),
            duplicate_detected: self.body.duplicate,
            payload,
            error: self.body.error.clone(),
        }
    }
}
