//! The three pipes of a command: payload, answer and errors. The amount that is kept is bounded.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::ChildStdin;

const RESPONSE_BYTES_MAX: usize = 64 * 1024;
const ERROR_CHARS_MAX: usize = 500;
const ERROR_BYTES_MAX: usize = ERROR_CHARS_MAX * 4;

/// Writes the payload. A command need not read all of it.
pub(super) async fn feed(stdin: Option<ChildStdin>, payload: &str) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(payload.as_bytes()).await;
    }
}

/// The start of a command's stdout: its answer.
#[derive(Default)]
pub(super) struct Head(Vec<u8>);

impl Head {
    /// Reads to the end, so that the command never blocks.
    pub(super) async fn read(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        let _ = each_chunk(pipe, |chunk| {
            let free = RESPONSE_BYTES_MAX - self.0.len();
            self.0.extend_from_slice(&chunk[..chunk.len().min(free)]);
        })
        .await;
    }

    /// The text without trailing newlines, as in a shell's `$(…)`; `None` if it is empty.
    pub(super) fn into_response(self) -> Option<String> {
        let text = storable(&self.0);
        let text = text.trim_end_matches(['\r', '\n']);
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// The end of a command's stderr: why it failed.
#[derive(Default)]
pub(super) struct Tail(Vec<u8>);

impl Tail {
    pub(super) async fn read(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        let _ = each_chunk(pipe, |chunk| {
            self.0.extend_from_slice(chunk);
            self.0.drain(..self.0.len().saturating_sub(ERROR_BYTES_MAX));
        })
        .await;
    }

    pub(super) fn text(&self) -> String {
        let text = storable(&self.0);
        let text = text.trim();
        let left_out = text.chars().count().saturating_sub(ERROR_CHARS_MAX);
        text.chars().skip(left_out).collect()
    }
}

async fn each_chunk(pipe: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    let mut buffer = [0; 4096];
    loop {
        match pipe.read(&mut buffer).await? {
            0 => return Ok(()),
            bytes => take(&buffer[..bytes]),
        }
    }
}

/// Text that every database can store.
fn storable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_bounded_and_an_empty_one_is_none() {
        let mut head = Head::default();
        head.read(Some(&vec![b'x'; RESPONSE_BYTES_MAX + 9000][..])).await;
        assert_eq!(head.into_response().map(|text| text.len()), Some(RESPONSE_BYTES_MAX));
        assert_eq!(Head(b"\n".to_vec()).into_response(), None);
        assert_eq!(Head(b"a\nb\n".to_vec()).into_response().as_deref(), Some("a\nb"));
    }

    #[tokio::test]
    async fn the_last_words_are_kept() {
        let mut tail = Tail::default();
        tail.read(Some(format!("{}ä!\n", "ä".repeat(9000)).as_bytes())).await;
        let text = tail.text();
        assert_eq!(text.chars().count(), ERROR_CHARS_MAX);
        assert!(text.ends_with("ää!"), "{text}");
    }
}
