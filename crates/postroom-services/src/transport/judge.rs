//! Decides what an answer means: the message is delivered, or whose failure it is. Each kind of peer has its own
//! table.

use std::time::Duration;

use crate::foreign::CloudEventsMode;
use crate::wire::Answer;
use postroom_core::queue::{Cause, Fault};
use postroom_core::work::delivery::Delivery;

/// The kind of peer that a destination is. It determines what is sent, and what the answers mean.
///
/// ```
/// use postroom::services::{Peer, Service};
/// use postroom::webhooks::{WebhookSecret, WebhookSigner};
///
/// // This peer is a customer's web server. It gets the payload by POST, signed by Standard Webhooks.
/// let signer = WebhookSigner::new([WebhookSecret::parse(&WebhookSecret::generate())?])?;
/// let customer = Service::new("customer", "https://customer.example.com/hook").peer(Peer::Webhook).signer(signer);
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Peer {
    /// A Postroom service. Messages are signed by v2, and only its signed receipt counts.
    #[default]
    V2,
    /// A service that speaks only v1, with the signature inside the envelope.
    V1,
    /// Any web server. It gets the payload unchanged by POST, signed by Standard Webhooks if there is a key.
    Webhook,
    /// A receiver of CloudEvents over HTTP. They are signed by Standard Webhooks if there is a key.
    CloudEvents(CloudEventsMode),
}

impl Peer {
    /// Returns whether messages to it must be signed with a shared key.
    pub(crate) fn needs_key(self) -> bool {
        matches!(self, Self::V2 | Self::V1)
    }
}

/// The answer to a delivery.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    /// Whether a receipt proves that the answer comes from the receiver itself.
    pub(crate) has_receipt: bool,
    pub(crate) retry_after: Option<Duration>,
    /// The receiver's dedupe window.
    pub(crate) window: Option<Duration>,
    pub(crate) answer: Option<Answer>,
}

/// At most this many characters of a peer's error text are kept.
const ERROR_CHARS_MAX: usize = 500;

pub(crate) fn judge(peer: Peer, answered: &Answered) -> Delivery {
    let Answered { status, has_receipt, answer, .. } = answered;
    // A message that was handled without an answer is answered with null; 202 means that an answer may come later.
    let none = || (*status != 202).then(|| "null".to_owned());
    let accepted = || Delivery::Accepted { response: answer.as_ref().and_then(Answer::payload).or_else(none) };
    match (peer, status) {
        (Peer::V2, 200..300) if *has_receipt && is_acknowledged(answer.as_ref()) => accepted(),
        (Peer::V1, 200..300) if is_acknowledged(answer.as_ref()) => accepted(),
        (Peer::Webhook | Peer::CloudEvents(_), 200..300) => Delivery::Accepted { response: None },
        (Peer::V2, _) if *has_receipt => proven(answered),
        (Peer::V2, _) => Fault::new(of_place(answered), said(answered)).asking_for(answered.retry_after).into(),
        _ => by_its_word(answered),
    }
}

/// Judges an answer that the receiver itself gave. It concerns this message only; other messages may well get
/// through.
fn proven(answered: &Answered) -> Delivery {
    let why = said(answered);
    let fault = match answered.status {
        400 | 410 | 413 | 422 => return Delivery::refused(why),
        403 => Fault::new(Cause::NotAllowed, why),
        404 => Fault::new(Cause::NoHandler, why),
        409 | 429 | 503 => Fault::new(Cause::Busy, why),
        500 => Fault::new(Cause::HandlerFailed, why),
        _ => Fault::new(Cause::Unavailable, why),
    };
    fault.asking_for(answered.retry_after).of_this_message_alone().into()
}

/// Judges the answer of a peer without receipts. What it says about the message is believed.
fn by_its_word(answered: &Answered) -> Delivery {
    let why = said(answered);
    let fault = match answered.status {
        400 | 410 | 413 | 422 => return Delivery::refused(why),
        409 => Fault::new(Cause::Busy, why).of_this_message_alone(),
        500 => Fault::new(Cause::HandlerFailed, why),
        _ => Fault::new(of_place(answered), why),
    };
    fault.asking_for(answered.retry_after).into()
}

/// Returns what an answer says about the place it came from.
fn of_place(answered: &Answered) -> Cause {
    of_status(answered.status, answered.retry_after.is_some())
}

/// Returns what a status says about the place it came from, even if something in between sent it.
pub(crate) fn of_status(status: u16, asks_for_time: bool) -> Cause {
    match status {
        401 | 403 | 407 => Cause::NotAllowed,
        404 | 405 => Cause::NotFound,
        429 => Cause::Busy,
        503 if asks_for_time => Cause::Busy,
        408 | 500..600 => Cause::Unavailable,
        _ => Cause::Unproven,
    }
}

fn is_acknowledged(answer: Option<&Answer>) -> bool {
    answer.is_some_and(|answer| answer.acknowledged || answer.duplicate_detected)
}

fn said(answered: &Answered) -> String {
    let status = answered.status;
    let unproven = if matches!(status, 200..300) { " without a receipt that proves it" } else { "" };
    match answered.answer.as_ref().and_then(|answer| answer.error.as_deref()) {
        Some(error) => {
            let error: String = error.chars().take(ERROR_CHARS_MAX).collect();
            format!("the destination answered {status}{unproven}: {error}")
        }
        None => format!("the destination answered {status}{unproven}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Cause::{Busy, HandlerFailed, NoHandler, NotAllowed, NotFound, Refused, Unavailable, Unproven};
    use postroom_core::queue::Whose;

    fn answered(status: u16, has_receipt: bool) -> Answered {
        let answer = Answer { acknowledged: status < 300, ..Answer::default() };
        Answered { status, has_receipt, answer: Some(answer), ..Answered::default() }
    }

    fn cause(peer: Peer, answered: &Answered) -> Option<Cause> {
        judge(peer, answered).fault().map(Fault::cause)
    }

    #[test]
    fn a_postroom_peer_is_believed_only_with_its_receipt() {
        for (status, with, without) in [
            (200, None, Unproven),
            (202, None, Unproven),
            (301, Some(Unavailable), Unproven),
            (400, Some(Refused), Unproven),
            (401, Some(Unavailable), NotAllowed),
            (403, Some(NotAllowed), NotAllowed),
            (404, Some(NoHandler), NotFound),
            (408, Some(Unavailable), Unavailable),
            (409, Some(Busy), Unproven),
            (410, Some(Refused), Unproven),
            (422, Some(Refused), Unproven),
            (429, Some(Busy), Busy),
            (500, Some(HandlerFailed), Unavailable),
            (502, Some(Unavailable), Unavailable),
            (503, Some(Busy), Unavailable),
        ] {
            assert_eq!(cause(Peer::V2, &answered(status, true)), with, "{status} with a receipt");
            assert_eq!(cause(Peer::V2, &answered(status, false)), Some(without), "{status} without a receipt");
        }
    }

    #[test]
    fn without_a_receipt_nothing_is_ever_the_messages_failure() {
        for status in 100..600 {
            let delivery = judge(Peer::V2, &answered(status, false));
            let fault = delivery.fault().unwrap();
            assert!(fault.whose() == Whose::Place && fault.holds_the_place() && !fault.is_final(), "{status}");
        }
    }

    #[test]
    fn a_proven_answer_speaks_of_one_message_and_never_holds_the_place() {
        for status in 300..600 {
            let delivery = judge(Peer::V2, &answered(status, true));
            assert!(!delivery.fault().unwrap().holds_the_place(), "{status}");
        }
    }

    #[test]
    fn other_peers_are_taken_at_their_word() {
        for (status, said) in [
            (200, None),
            (204, None),
            (302, Some(Unproven)),
            (400, Some(Refused)),
            (403, Some(NotAllowed)),
            (409, Some(Busy)),
            (410, Some(Refused)),
            (429, Some(Busy)),
            (500, Some(HandlerFailed)),
            (502, Some(Unavailable)),
        ] {
            assert_eq!(cause(Peer::V1, &answered(status, false)), said, "{status}");
            assert_eq!(cause(Peer::Webhook, &answered(status, false)), said, "{status}");
        }
        let silent = Answered { status: 200, ..Answered::default() };
        assert_eq!(cause(Peer::V1, &silent), Some(Unproven), "a 200 that acknowledges nothing");
        assert_eq!(cause(Peer::CloudEvents(CloudEventsMode::Binary), &silent), None);
    }

    #[test]
    fn only_the_beginning_of_an_error_is_kept() {
        for has_receipt in [true, false] {
            let mut answered = answered(500, has_receipt);
            let error = "é".repeat(2 * 1024 * 1024);
            answered.answer = Some(Answer { error: Some(error), ..Answer::default() });
            for peer in [Peer::V2, Peer::V1, Peer::Webhook] {
                let why = judge(peer, &answered).fault().unwrap().why().to_owned();
                assert!((500..600).contains(&why.chars().count()), "{} characters", why.chars().count());
            }
        }
    }

    #[test]
    fn who_asks_for_time_gets_it_within_bounds() {
        let asked = |seconds| Answered { retry_after: Some(Duration::from_secs(seconds)), ..answered(503, true) };
        for (seconds, waits) in
            [(0, Duration::from_millis(10)), (7, Duration::from_secs(7)), (99_999, Duration::from_secs(3600))]
        {
            assert_eq!(judge(Peer::V2, &asked(seconds)).fault().unwrap().pause(), Some(waits));
        }
    }
}
