//! What the receiving ends of HTTP and gRPC do alike: read a request, and prove an answer.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::error::Error;
use crate::handler::Backend;
use crate::receiver::{Authenticated, Receiver, ReceiverOptions, Reply};
use crate::wire::headers::{RECEIPT, RETENTION};

/// How long a request says it is.
pub(crate) fn declared_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads a request to its end, but no more than `limit` bytes of it and not forever.
pub(crate) async fn read<T>(body: T, limit: usize, options: &ReceiverOptions) -> Result<Bytes, Reply>
where
    T: Body + Send,
    T::Data: Send,
    T::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let reading = Limited::new(Box::pin(body), limit).collect();
    match tokio::time::timeout(options.body_timeout, reading).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => Err(Reply::too_large(options.body_max)),
        Ok(Err(_)) => Err(Reply::malformed(&Error::invalid("the request broke off"))),
        Err(_) => Err(Reply::error(408, "the request did not come in time")),
    }
}

/// Says beside an answer when to come again; and to a source that is known, for how long its messages are known again,
/// with the receipt.
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
    let receipt = from.receipt(reply.status, digest).map(|receipt| HeaderValue::from_str(&receipt));
    if let Some(Ok(receipt)) = receipt {
        headers.insert(RECEIPT, receipt);
    }
}

/// Never shorter than asked for.
fn whole_seconds(pause: Duration) -> u64 {
    pause.as_secs() + u64::from(pause.subsec_nanos() > 0)
}
