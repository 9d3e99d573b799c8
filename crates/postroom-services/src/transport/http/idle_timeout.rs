//! Closes connections that are quiet for too long. A client must send its first request soon, further requests from
//! time to time, and read the answers. Hyper's own timeouts start only when it has detected the HTTP version, and it
//! lets an HTTP/2 connection be quiet forever.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use postroom_core::support::clock::monotonic;

/// A connection that has sent a request may be quiet for this many times as long as a new one.
const AGAIN: u32 = 12;

/// Tracks whether a connection has an answer in progress, or since when it has been quiet. Clones share it.
#[derive(Clone)]
pub(super) struct Talk(Arc<Mutex<State>>);

struct State {
    /// How many answers are in progress; they may take as long as they need.
    answering: usize,
    /// How many of them wait for the client to read them.
    waiting: usize,
    patience: Duration,
    quiet_since: Instant,
}

impl Talk {
    pub(super) fn new(patience: Duration) -> Self {
        Self(Arc::new(Mutex::new(State { answering: 0, waiting: 0, patience, quiet_since: monotonic() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts an answer to a request. The answer is in progress until the result is dropped.
    pub(super) fn answering(&self, patience: Duration) -> Answering {
        let mut state = self.state();
        state.answering += 1;
        state.patience = patience.saturating_mul(AGAIN);
        Answering { talk: self.clone(), is_waiting: false }
    }

    /// Returns when the connection will have been quiet for too long, or `None` while an answer is being made.
    fn too_long_at(&self) -> Option<Instant> {
        let state = self.state();
        if state.answering > state.waiting { None } else { state.quiet_since.checked_add(state.patience) }
    }
}

pub(super) struct Answering {
    talk: Talk,
    is_waiting: bool,
}

impl Answering {
    /// Records whether the client has to read now.
    fn waits_for_client(&mut self, is_waiting: bool) {
        let mut state = self.talk.state();
        match (std::mem::replace(&mut self.is_waiting, is_waiting), is_waiting) {
            (false, true) => state.waiting += 1,
            (true, false) => state.waiting -= 1,
            _ => {}
        }
        state.quiet_since = monotonic();
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.waits_for_client(false);
        self.talk.state().answering -= 1;
    }
}

/// A response body that keeps its answer in progress until it ends.
pub(super) struct Answer<B> {
    body: Pin<Box<B>>,
    answering: Answering,
}

impl<B> Answer<B> {
    pub(super) fn new(body: B, answering: Answering) -> Self {
        let mut answer = Self { body: Box::pin(body), answering };
        answer.answering.waits_for_client(true);
        answer
    }
}

impl<B: Body> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = self.body.as_mut().poll_frame(cx);
        self.answering.waits_for_client(polled.is_ready());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that fails when the connection has been quiet for too long.
pub(super) struct Impatient<T> {
    io: T,
    talk: Talk,
    alarm: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<T> Impatient<T> {
    pub(super) fn new(io: T, talk: Talk) -> Self {
        Self { io, talk, alarm: None }
    }

    /// Fails a pending operation if the connection has been quiet for too long.
    fn unless_over<R>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if done.is_pending() && self.is_over(cx) {
            let why = "the client sent no request in time, or did not read the answer";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)));
        }
        done
    }

    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(at) = self.talk.too_long_at() else { return false };
        if self.alarm.as_ref().is_none_or(|(set, _)| *set != at) {
            self.alarm = Some((at, Box::pin(tokio::time::sleep_until(at.into()))));
        }
        self.alarm.as_mut().is_some_and(|(_, sleep)| sleep.as_mut().poll(cx).is_ready())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Impatient<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        self.unless_over(cx, read)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Impatient<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.unless_over(cx, written)
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
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.unless_over(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
