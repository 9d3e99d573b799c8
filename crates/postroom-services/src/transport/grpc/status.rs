//! Converts between the statuses of gRPC and those of HTTP, which everything else here uses.

use std::error::Error;

use http::header::RETRY_AFTER;
use tonic::{Code, Status};

use crate::receiver::Reply;
use crate::transport::http::client::{seconds, with_causes};
use crate::transport::judge::Answered;
use crate::transport::wires::WireError;
use crate::wire::Answer;

/// Returns the status for a sender that is not verified, or not yet.
pub(super) fn refusal(reply: &Reply) -> Status {
    let code = match reply.status {
        400 => Code::InvalidArgument,
        401 => Code::Unauthenticated,
        404 => Code::Unimplemented,
        408 => Code::DeadlineExceeded,
        413 => Code::ResourceExhausted,
        _ => Code::Internal,
    };
    Status::new(code, reply.body.error.clone().unwrap_or_default())
}

/// Interprets a status that came instead of an answer: a refusal, or no answer at all.
pub(super) fn answered(status: &Status) -> Result<Answered, WireError> {
    // This status was created here, from an error on the way.
    if let Some(cause) = status.source() {
        return Err(WireError::Broken(with_causes(cause)));
    }
    let retry_after = seconds(status.metadata().as_ref(), RETRY_AFTER.as_str());
    let number = match status.code() {
        Code::InvalidArgument => 400,
        Code::Unauthenticated => 401,
        Code::PermissionDenied => 403,
        Code::NotFound | Code::Unimplemented => 404,
        // The code means either too many requests or too large a message. Only an overloaded peer says when to come
        // back.
        Code::ResourceExhausted if retry_after.is_none() => 413,
        Code::ResourceExhausted => 429,
        Code::Unavailable => 503,
        _ => 500,
    };
    let error = Some(status.message().to_owned()).filter(|message| !message.is_empty());
    let answer = Some(Answer { error, ..Answer::default() });
    Ok(Answered { status: number, has_receipt: false, retry_after, window: None, answer })
}
