//! What can befall a request, and how often it did.

use std::{collections::BTreeMap, time::Duration};

/// What befalls a request.
///
/// On a connection that does not speak HTTP/1, [`Pass`](Self::Pass), [`Delay`](Self::Delay),
/// [`DropRequest`](Self::DropRequest) and [`HalfOpen`](Self::HalfOpen) befall the connection as a whole. The others
/// close it when the first bytes come from the server, none of which is passed on; [`Reset`](Self::Reset) does it
/// with a reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing: the request and its answer are passed on as they come.
    Pass,
    /// The request gets to the server so much later, even if the client has given up by then.
    Delay(Duration),
    /// The connection is closed, and the server never sees the request.
    DropRequest,
    /// The server carries the request out and answers in full, but the connection is closed without a byte of that.
    DropResponse,
    /// As [`Truncate`](Self::Truncate), with a reset in place of the close. A Unix socket knows none and is closed.
    Reset,
    /// The server never sees the request, and the connection stays open without an answer: until the client gives up,
    /// or [`FaultProxy::let_go`](super::FaultProxy::let_go).
    HalfOpen,
    /// The server carries the request out, and the connection is closed after a part of its answer: the head and half
    /// of the body, or half of the head where nobody could miss the rest of the body.
    Truncate,
    /// The server gets the request once more, on another connection, after it has answered the first. The client gets
    /// the first answer after the second was read.
    Duplicate,
    /// The client is told that all went well, and the server never sees the request.
    AnswerOk,
}

impl Fault {
    /// Takes as long as the fault says.
    #[allow(clippy::disallowed_methods, reason = "the delay is what was ordered")]
    pub(super) async fn pause(self) {
        if let Self::Delay(time) = self {
            tokio::time::sleep(time).await;
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Delay(_) => "delay",
            Self::DropRequest => "drop request",
            Self::DropResponse => "drop response",
            Self::Reset => "reset",
            Self::HalfOpen => "half open",
            Self::Truncate => "truncate",
            Self::Duplicate => "duplicate",
            Self::AnswerOk => "answer ok",
        }
    }
}

/// How often each fault was carried out.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    /// How often this fault was carried out, whatever its delay.
    pub fn of(&self, fault: Fault) -> u64 {
        self.0.get(fault.name()).copied().unwrap_or_default()
    }

    pub(super) fn add(&mut self, fault: Fault) {
        *self.0.entry(fault.name()).or_default() += 1;
    }
}
