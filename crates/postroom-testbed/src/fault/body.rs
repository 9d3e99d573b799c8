//! Finds the end of an HTTP/1 message.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What follows a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Framing {
    Empty,
    Length(u64),
    Chunked,
    /// Everything up to the end of the connection.
    UntilClose,
    /// Another protocol, in both directions.
    Switched,
}

/// Forwards the body of one message, byte for byte as it comes.
pub(super) async fn transfer(
    from: &mut (impl AsyncBufRead + Unpin),
    framing: Framing,
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    match framing {
        Framing::Empty | Framing::Switched => Ok(()),
        Framing::Length(length) => exactly(from, length, to).await,
        Framing::Chunked => chunks(from, to).await,
        Framing::UntilClose => tokio::io::copy_buf(from, to).await.map(drop),
    }
}

async fn exactly(
    from: &mut (impl AsyncBufRead + Unpin),
    length: u64,
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let copied = tokio::io::copy_buf(&mut from.take(length), to).await?;
    if copied < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

async fn chunks(from: &mut (impl AsyncBufRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    loop {
        let line = pass_line(from, to).await?;
        match httparse::parse_chunk_size(&line) {
            Ok(httparse::Status::Complete((_, 0))) => break,
            // The chunk, and the end of its line.
            Ok(httparse::Status::Complete((_, length))) => exactly(from, length.saturating_add(2), to).await?,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    // Trailers after the body end with an empty line.
    while !matches!(pass_line(from, to).await?.as_slice(), b"\r\n" | b"\n") {}
    Ok(())
}

async fn pass_line(from: &mut (impl AsyncBufRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line).await?;
    if !line.ends_with(b"\n") {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    to.write_all(&line).await?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is forwarded, and what is left.
    async fn pass(bytes: &str, framing: Framing) -> io::Result<(String, String)> {
        let (mut from, mut to) = (bytes.as_bytes(), Vec::new());
        transfer(&mut from, framing, &mut to).await?;
        Ok((String::from_utf8_lossy(&to).into(), String::from_utf8_lossy(from).into()))
    }

    #[tokio::test]
    async fn a_body_ends_where_its_framing_says() {
        let chunked = "5;note=a\r\nhello\r\nA\r\n0123456789\r\n0\r\nsum: b\r\n\r\n";
        for (framing, body) in [
            (Framing::Empty, ""),
            (Framing::Length(5), "hello"),
            (Framing::Chunked, chunked),
            (Framing::Chunked, "0\r\n\r\n"),
        ] {
            let passed = pass(&format!("{body}next"), framing).await.unwrap();
            assert_eq!(passed, (body.into(), "next".into()), "{framing:?}");
        }
        assert_eq!(pass("hello", Framing::UntilClose).await.unwrap(), ("hello".into(), String::new()));
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_an_error() {
        for (bytes, framing) in [
            ("hell", Framing::Length(5)),
            ("5\r\nhell", Framing::Chunked),
            ("5\r\nhello\r\n", Framing::Chunked),
            ("0\r\n", Framing::Chunked),
            ("five\r\nhello\r\n0\r\n\r\n", Framing::Chunked),
        ] {
            assert!(pass(bytes, framing).await.is_err(), "{bytes:?}");
        }
    }
}
