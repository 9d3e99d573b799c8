//! What counts as sent, as dead and as to be tried again: one table for each kind of peer.

use std::time::Duration;

use crate::neighbour::CloudEventsMode;
use crate::transport::Delivery;
use crate::wire::Answer;

/// What kind of peer a destination is: what it is sent, and what its answers mean.
///
/// ```
/// use postroom::{Peer, Service, WebhookSecret, WebhookSigner};
///
/// // A customer's web server: posted the payload, signed by Standard Webhooks.
/// let signer = WebhookSigner::new([WebhookSecret::parse(&WebhookSecret::generate())?])?;
/// let customer = Service::new("customer", "https://customer.example.com/hook").peer(Peer::Webhook).signer(signer);
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Peer {
    /// A Postroom service: signed by v2, and only its signed receipt counts.
    #[default]
    V2,
    /// A service that speaks the document's own wire: signed by v1.
    V1,
    /// Any web server: the payload is posted as it is; signed by Standard Webhooks where there is a key.
    Webhook,
    /// CloudEvents over HTTP; signed by Standard Webhooks where there is a key.
    CloudEvents(CloudEventsMode),
}

impl Peer {
    /// Whether messages to it must be signed with a shared key.
    pub(crate) fn needs_key(self) -> bool {
        matches!(self, Self::V2 | Self::V1)
    }
}

/// What came back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    /// The receiver itself said so, and can prove it.
    pub(crate) has_receipt: bool,
    pub(crate) retry_after: Option<Duration>,
    /// For how long the receiver knows a message again.
    pub(crate) window: Option<Duration>,
    pub(crate) answer: Option<Answer>,
}

/// No longer than this, whatever a peer asks for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// When a peer that is busy does not say for how long.
const RETRY_AFTER: Duration = Duration::from_secs(1);

pub(crate) fn judge(peer: Peer, answered: &Answered) -> Delivery {
    let Answered { status, has_receipt, answer, .. } = answered;
    let is_trusted = peer != Peer::V2 || *has_receipt;
    // Handled without an answer is an answer as well; 202 says that one may come later.
    let none = || (*status != 202).then(|| "null".to_owned());
    let accepted = || Delivery::Accepted { response: answer.as_ref().and_then(Answer::payload).or_else(none) };
    match (peer, status) {
        (Peer::V2, 200..300) if *has_receipt && is_acknowledged(answer.as_ref()) => accepted(),
        (Peer::V1, 200..300) if is_acknowledged(answer.as_ref()) => accepted(),
        (Peer::Webhook | Peer::CloudEvents(_), 200..300) => Delivery::Accepted { response: None },
        (_, 400 | 410 | 422) if is_trusted => Delivery::Refused { why: said(answered) },
        (_, 409 | 429) if is_trusted => busy(answered),
        // It asks for time by itself: its attempt is not spent.
        (_, 503) if is_trusted && answered.retry_after.is_some() => busy(answered),
        _ => Delivery::Failed { why: said(answered) },
    }
}

fn is_acknowledged(answer: Option<&Answer>) -> bool {
    answer.is_some_and(|answer| answer.acknowledged || answer.duplicate_detected)
}

fn busy(answered: &Answered) -> Delivery {
    let retry_after = answered.retry_after.unwrap_or(RETRY_AFTER).clamp(Duration::from_millis(10), RETRY_AFTER_MAX);
    Delivery::Busy { retry_after, why: said(answered) }
}

/// Whether the destination is broken, and should be left alone if that goes on. One that can prove its answer is not:
/// what failed is this message's handler.
pub(crate) fn is_broken(answered: &Answered) -> bool {
    let is_its_own_word = answered.has_receipt || answered.retry_after.is_some();
    matches!(answered.status, 500..600) && !is_its_own_word
}

fn said(answered: &Answered) -> String {
    let status = answered.status;
    let unproven = if matches!(status, 200..300) { " without a receipt that proves it" } else { "" };
    match answered.answer.as_ref().and_then(|answer| answer.error.as_deref()) {
        Some(error) => format!("the destination answered {status}{unproven}: {error}"),
        None => format!("the destination answered {status}{unproven}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, has_receipt: bool) -> Answered {
        let answer = Answer { acknowledged: status < 300, ..Answer::default() };
        Answered { status, has_receipt, answer: Some(answer), ..Answered::default() }
    }

    fn name(peer: Peer, answered: &Answered) -> String {
        format!("{:?}", judge(peer, answered))
    }

    #[test]
    fn a_postroom_peer_counts_only_with_its_receipt() {
        for (status, with, without) in [
            (200, "Accepted", "Failed"),
            (202, "Accepted", "Failed"),
            (301, "Failed", "Failed"),
            (400, "Refused", "Failed"),
            (401, "Failed", "Failed"),
            (404, "Failed", "Failed"),
            (409, "Busy", "Failed"),
            (410, "Refused", "Failed"),
            (422, "Refused", "Failed"),
            (429, "Busy", "Failed"),
            (500, "Failed", "Failed"),
            (503, "Failed", "Failed"),
        ] {
            assert_eq!(name(Peer::V2, &answered(status, true)), with, "{status}");
            assert_eq!(name(Peer::V2, &answered(status, false)), without, "{status}");
        }
    }

    #[test]
    fn other_peers_are_taken_at_their_word() {
        for (status, v1, webhook) in [
            (200, "Accepted", "Accepted"),
            (204, "Accepted", "Accepted"),
            (302, "Failed", "Failed"),
            (400, "Refused", "Refused"),
            (403, "Failed", "Failed"),
            (409, "Busy", "Busy"),
            (410, "Refused", "Refused"),
            (429, "Busy", "Busy"),
            (502, "Failed", "Failed"),
        ] {
            assert_eq!(name(Peer::V1, &answered(status, false)), v1, "{status}");
            assert_eq!(name(Peer::Webhook, &answered(status, false)), webhook, "{status}");
        }
        let silent = Answered { status: 200, ..Answered::default() };
        assert_eq!(name(Peer::V1, &silent), "Failed", "a 200 that acknowledges nothing");
        assert_eq!(name(Peer::CloudEvents(CloudEventsMode::Binary), &silent), "Accepted");
    }

    #[test]
    fn who_asks_for_time_gets_it_within_bounds() {
        let asked = |seconds| Answered { retry_after: Some(Duration::from_secs(seconds)), ..answered(503, true) };
        for (seconds, waits) in [(0, Duration::from_millis(10)), (7, Duration::from_secs(7)), (99_999, RETRY_AFTER_MAX)]
        {
            assert!(
                matches!(judge(Peer::V2, &asked(seconds)), Delivery::Busy { retry_after, .. } if retry_after == waits)
            );
        }
    }
}
