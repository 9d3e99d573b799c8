//! What the receiving ends of HTTP and gRPC share: they read a request, and prove an answer.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http::header::{CONTENT_LENGTH, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::BoxError;
use crate::receiver::{Authenticated, Receiver, ReceiverOptions, Reply, Room};
use crate::wire::headers::{self, RECEIPT, RETENTION};
use postroom_core::support::error::Error;
use postroom_core::work::handler::Backend;

/// Returns the length that a request declares.
pub(crate) fn declared_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A request that was read, and the room it takes until it is dropped.
pub(crate) struct Held {
    pub(crate) body: Bytes,
    _room: Room,
}

/// Reads a whole request, but at most `limit` bytes, within the time limit, and only while there is room.
pub(crate) async fn read<T>(body: T, limit: usize, options: &ReceiverOptions, room: Room) -> Result<Held, Reply>
where
    T: Body<Data: Send, Error: Into<BoxError>> + Send,
{
    let reading = read_frames(Limited::new(Box::pin(body), limit), options, room);
    tokio::time::timeout(options.body_timeout, reading)
        .await
        .unwrap_or_else(|_| Err(Reply::error(408, "the request did not arrive in time")))
}

async fn read_frames<T>(mut body: Limited<T>, options: &ReceiverOptions, mut room: Room) -> Result<Held, Reply>
where
    Limited<T>: Body<Error = BoxError> + Unpin,
{
    // The parts are kept as they come: one growing buffer would take up to three times as much memory.
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        let data = match frame {
            Ok(frame) => frame.into_data(),
            Err(error) if error.is::<LengthLimitError>() => return Err(Reply::too_large(options.body_max)),
            Err(_) => return Err(Reply::malformed(&Error::invalid("the request was interrupted"))),
        };
        let Ok(mut data) = data else { continue };
        if !room.take(data.remaining()) {
            return Err(Reply::overloaded());
        }
        let mut part = Vec::with_capacity(data.remaining());
        part.put(&mut data);
        read.push(part);
    }
    Ok(Held { body: read.concat().into(), _room: room })
}

/// Adds the response headers: when to come back and, for a verified source, the dedupe window and the receipt.
pub(crate) fn annotate<B: Backend>(
    headers: &mut HeaderMap,
    receiver: &Receiver<B>,
    from: Option<&Authenticated>,
    reply: &Reply,
    digest: [u8; 32],
) {
    if let Some(pause) = reply.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(pause)));
    }
    let Some(from) = from else { return };
    headers.insert(RETENTION, HeaderValue::from(receiver.window(&from.source).as_secs()));
    let receipt =
        from.receipt(reply.status, digest, headers::beside(headers)).map(|receipt| HeaderValue::from_str(&receipt));
    if let Some(Ok(receipt)) = receipt {
        headers.insert(RECEIPT, receipt);
    }
}

/// Rounds up, so that the pause is never shorter than requested.
fn whole_seconds(pause: Duration) -> u64 {
    pause.as_secs() + u64::from(pause.subsec_nanos() > 0)
}
