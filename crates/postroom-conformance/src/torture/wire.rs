//! What parent and children say to each other: one line each, on the child's stdin and stdout.

use std::io::Write;

use anyhow::{Context, Result, bail};

/// A named place in a child's work where it can be made to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// An order and its message are written; nothing is committed.
    Placing,
    /// Orders and their messages are committed; the producer has not noted it.
    Enqueued,
    /// Outbox messages are claimed; none has been sent.
    ClaimedOutbox,
    /// Inbox messages are claimed; none has been handled.
    ClaimedInbox,
    /// A message is about to go over.
    Sending,
    /// The other side has it; the ack is not written.
    Sent,
    /// The handler has been called, and has done nothing.
    Called,
    /// The handler is at its end, in its transaction; the ack is not written.
    Handling,
    /// The handler's transaction is committed; the worker knows.
    Committed,
    /// Another connection sees the effect; the worker may not know yet.
    Visible,
}

impl Stop {
    /// Every place, those first that a short run must not miss.
    pub(crate) const ALL: [Self; 10] = [
        Self::Visible,
        Self::Sent,
        Self::Handling,
        Self::Enqueued,
        Self::Committed,
        Self::ClaimedOutbox,
        Self::ClaimedInbox,
        Self::Sending,
        Self::Placing,
        Self::Called,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Placing => "placing",
            Self::Enqueued => "enqueued",
            Self::ClaimedOutbox => "claimed-outbox",
            Self::ClaimedInbox => "claimed-inbox",
            Self::Sending => "sending",
            Self::Sent => "sent",
            Self::Called => "called",
            Self::Handling => "handling",
            Self::Committed => "committed",
            Self::Visible => "visible",
        }
    }

    fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|stop| stop.name() == name).with_context(|| format!("no stop is called {name:?}"))
    }
}

/// What the parent tells a child.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Stop at this place once; only with this message, if one is named.
    Arm(Stop, Option<String>),
    /// Stop nowhere.
    Disarm,
    /// Go on.
    Go,
    /// Orders below this number may be placed.
    Grant(u64),
}

impl Order {
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Arm(stop, message) => format!("arm {} {}\n", stop.name(), message.as_deref().unwrap_or_default()),
            Self::Disarm => "disarm\n".into(),
            Self::Go => "go\n".into(),
            Self::Grant(below) => format!("grant {below}\n"),
        }
    }

    pub(crate) fn parse(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        Ok(match (words.next(), words.next(), words.next()) {
            (Some("arm"), Some(stop), message) => Self::Arm(Stop::parse(stop)?, message.map(str::to_owned)),
            (Some("disarm"), None, _) => Self::Disarm,
            (Some("go"), None, _) => Self::Go,
            (Some("grant"), Some(below), _) => Self::Grant(below.parse()?),
            _ => bail!("not an order: {line:?}"),
        })
    }
}

/// What a child tells the parent, as it happens, so that a kill loses none of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// Started.
    Ready,
    /// At the place where it had to stop, with this message.
    At(Stop, String),
    /// A message that was there before was recognised.
    Duplicate,
    /// An order whose outcome nobody knew is placed again.
    Again,
    /// A commit had no answer.
    InDoubt,
    /// A stale settle was refused.
    Refused,
    /// A message was handled.
    Handled,
    /// Every order is placed.
    Done,
    /// Something failed that may fail under fire, and is tried again.
    Trouble(String),
}

impl Word {
    fn line(&self) -> String {
        match self {
            Self::Ready => "ready\n".into(),
            Self::At(stop, message) => format!("at {} {message}\n", stop.name()),
            Self::Duplicate => "duplicate\n".into(),
            Self::Again => "again\n".into(),
            Self::InDoubt => "in-doubt\n".into(),
            Self::Refused => "refused\n".into(),
            Self::Handled => "handled\n".into(),
            Self::Done => "done\n".into(),
            Self::Trouble(what) => format!("trouble {}\n", what.replace('\n', " ")),
        }
    }

    pub(crate) fn parse(line: &str) -> Result<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        Ok(match word {
            "ready" => Self::Ready,
            "at" => {
                let (stop, message) = rest.split_once(' ').unwrap_or((rest, ""));
                Self::At(Stop::parse(stop)?, message.to_owned())
            }
            "duplicate" => Self::Duplicate,
            "again" => Self::Again,
            "in-doubt" => Self::InDoubt,
            "refused" => Self::Refused,
            "handled" => Self::Handled,
            "done" => Self::Done,
            "trouble" => Self::Trouble(rest.to_owned()),
            _ => bail!("not a word: {line:?}"),
        })
    }
}

/// Says a word to the parent. Without a parent nobody listens, and the end is near.
pub(crate) fn say(word: &Word) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(word.line().as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        for stop in Stop::ALL {
            let arm = Order::Arm(stop, Some("m1".into()));
            assert_eq!(Order::parse(&arm.line()).unwrap(), arm);
            let at = Word::At(stop, "m1".into());
            assert_eq!(Word::parse(at.line().trim_end()).unwrap(), at);
        }
        for order in [Order::Arm(Stop::Sent, None), Order::Disarm, Order::Go, Order::Grant(7)] {
            assert_eq!(Order::parse(&order.line()).unwrap(), order);
        }
        assert!(Order::parse("grant").is_err());
        assert!(Word::parse("at nowhere m1").is_err());
    }
}
