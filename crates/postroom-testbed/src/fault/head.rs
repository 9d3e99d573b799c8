//! The heads of HTTP/1 requests and answers.

use std::io;

use httparse::Status;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use super::body::Framing;

const HEADERS_MAX: usize = 128;
const HEAD_BYTES_MAX: usize = 256 * 1024;

/// How a request continues after its head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) framing: Framing,
    /// Whether the answer looks as if it had a body, but has none.
    pub(super) is_head: bool,
}

/// How an answer continues after its head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Response {
    pub(super) framing: Framing,
    /// Whether the real answer is still to come.
    pub(super) is_interim: bool,
}

/// The first bytes of a peer.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Opening<Head> {
    /// The bytes of a head, and what they mean.
    Head(Vec<u8>, Head),
    /// Bytes that are not a head.
    Foreign(Vec<u8>),
    /// Nothing, and nothing will follow.
    End,
}

/// Reads exactly to the end of a head, or until it is clear that this is not a head.
pub(super) async fn read<Head>(
    from: &mut (impl AsyncBufRead + Unpin),
    parse: impl Fn(&[u8]) -> httparse::Result<(usize, Head)>,
) -> io::Result<Opening<Head>> {
    let mut bytes = Vec::new();
    loop {
        let fresh = from.fill_buf().await?;
        let (before, length) = (bytes.len(), fresh.len());
        if length == 0 {
            return Ok(if bytes.is_empty() { Opening::End } else { Opening::Foreign(bytes) });
        }
        bytes.extend_from_slice(fresh);
        match parse(&bytes) {
            Ok(Status::Complete((end, head))) => {
                bytes.truncate(end);
                from.consume(end - before);
                return Ok(Opening::Head(bytes, head));
            }
            Ok(Status::Partial) if bytes.len() < HEAD_BYTES_MAX => from.consume(length),
            Ok(Status::Partial) | Err(_) => {
                from.consume(length);
                return Ok(Opening::Foreign(bytes));
            }
        }
    }
}

pub(super) fn request(bytes: &[u8]) -> httparse::Result<(usize, Request)> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let Status::Complete(end) = head.parse(bytes)? else { return Ok(Status::Partial) };
    let framing = framing(head.headers)?.unwrap_or(Framing::Empty);
    Ok(Status::Complete((end, Request { framing, is_head: head.method == Some("HEAD") })))
}

/// Parses the head of the answer to this request.
pub(super) fn response(request: Request, bytes: &[u8]) -> httparse::Result<(usize, Response)> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let Status::Complete(end) = head.parse(bytes)? else { return Ok(Status::Partial) };
    let code = head.code.unwrap_or_default();
    let framing = match code {
        101 => Framing::Switched,
        100..200 | 204 | 304 => Framing::Empty,
        _ if request.is_head => Framing::Empty,
        _ => framing(head.headers)?.unwrap_or(Framing::UntilClose),
    };
    Ok(Status::Complete((end, Response { framing, is_interim: matches!(code, 100 | 102..200) })))
}

/// Returns what the headers say about the body, if anything. Chunked encoding takes precedence over a length.
fn framing(headers: &[httparse::Header<'_>]) -> Result<Option<Framing>, httparse::Error> {
    let mut length = None;
    for header in headers {
        let value = header.value.trim_ascii();
        let is_chunked = value.to_ascii_lowercase().ends_with(b"chunked");
        if is_chunked && header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Ok(Some(Framing::Chunked));
        }
        if header.name.eq_ignore_ascii_case("content-length") {
            let number = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            length = Some(Framing::Length(number.ok_or(httparse::Error::HeaderValue)?));
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests;
