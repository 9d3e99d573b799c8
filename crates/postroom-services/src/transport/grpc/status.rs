//! The statuses of gRPC, by the numbers of HTTP that everything else here is told in.

use std::error::Error;

use http::header::RETRY_AFTER;
use tonic::{Code, Status};

use crate::receiver::Reply;
use crate::transport::http::client::{seconds, told};
use crate::transport::judge::Answered;
use crate::transport::wires::WireError;
use crate::wire::Answer;

/// What one hears who is not known, or not yet.
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

/// What came instead of an answer: a refusal, or nothing at all.
pub(super) fn answered(status: &Status) -> Result<Answered, WireError> {
    // A status that was made here, of an error on the way.
    if let Some(cause) = status.source() {
        return Err(WireError::Broken(told(cause)));
    }
    let retry_after = seconds(status.metadata().as_ref(), RETRY_AFTER.as_str());
    let number = match status.code() {
        Code::InvalidArgument => 400,
        Code::Unauthenticated => 401,
        Code::PermissionDenied => 403,
        Code::NotFound | Code::Unimplemented => 404,
        // It stands for too much as well as for too large: who has too much to do says when to come back.
        Code::ResourceExhausted if retry_after.is_none() => 413,
        Code::ResourceExhausted => 429,
        Code::Unavailable => 503,
        _ => 500,
    };
    let error = Some(status.message().to_owned()).filter(|message| !message.is_empty());
    let answer = Some(Answer { error, ..Answer::default() });
    Ok(Answered { status: number, has_receipt: false, retry_after, window: None, answer })
}
