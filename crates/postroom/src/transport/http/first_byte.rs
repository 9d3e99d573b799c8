//! Who connects has to say something: hyper's own timeouts begin with the first byte.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::clock::monotonic;

/// Fails to read when the first byte does not come in time.
pub(super) struct FirstByte<T> {
    io: T,
    patience: Option<Pin<Box<Sleep>>>,
}

impl<T> FirstByte<T> {
    pub(super) fn within(io: T, patience: Duration) -> Self {
        Self { io, patience: Some(Box::pin(tokio::time::sleep_until((monotonic() + patience).into()))) }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for FirstByte<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if read.is_ready() {
            self.patience = None;
        }
        let is_over = self.patience.as_mut().is_some_and(|patience| patience.as_mut().poll(cx).is_ready());
        if is_over {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "nothing was said in time")));
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for FirstByte<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
