//! The faults of a request, and how often they happened.

use std::{collections::BTreeMap, time::Duration};

/// What happens to a request.
///
/// On a connection that does not speak HTTP/1, [`Pass`](Self::Pass), [`Delay`](Self::Delay),
/// [`DropRequest`](Self::DropRequest) and [`HalfOpen`](Self::HalfOpen) affect the connection as a whole. The others
/// close it when the first bytes come from the server, and forward none of them; [`Reset`](Self::Reset) does it with
/// a reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The request and its answer are forwarded as they come.
    Pass,
    /// The request reaches the server this much later, even if the client has given up by then.
    Delay(Duration),
    /// The connection is closed, and the server never sees the request.
    DropRequest,
    /// The server executes the request and answers in full, but the connection is closed without a byte of the
    /// answer.
    DropResponse,
    /// The same as [`Truncate`](Self::Truncate), with a reset in place of the close. A Unix socket has no reset and
    /// is closed.
    Reset,
    /// The server never sees the request, and the connection stays open without an answer, until the client gives up
    /// or [`FaultProxy::let_go`](super::FaultProxy::let_go) is called.
    HalfOpen,
    /// The server executes the request, and the connection is closed after a part of its answer: the head and half of
    /// the body, or half of the head if nobody could notice that the rest of the body is missing.
    Truncate,
    /// The server gets the request again, on another connection, after it has answered the first. The client gets the
    /// first answer after the second was read.
    Duplicate,
    /// The client gets a successful answer, and the server never sees the request.
    AnswerOk,
}

impl Fault {
    /// Waits for the delay of the fault, if it has one.
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

/// How often each fault was completed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    /// Returns how often this fault was completed, whatever its delay.
    pub fn of(&self, fault: Fault) -> u64 {
        self.0.get(fault.name()).copied().unwrap_or_default()
    }

    pub(super) fn add(&mut self, fault: Fault) {
        *self.0.entry(fault.name()).or_default() += 1;
    }
}
