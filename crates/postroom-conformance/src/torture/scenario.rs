//! The failure table of the document, row by row: what is broken, and what is promised all the same.

use std::time::Duration;

use postroom_testbed::Fault;

use super::wire::Stop;

/// One row of the failure table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Scenario {
    /// The sender crashes before its outbox is written.
    SenderBeforeWrite,
    /// It crashes after that, before anything is sent.
    SenderBeforeSend,
    /// The network fails while it sends.
    Network,
    /// The receiver crashes before it has done anything.
    ReceiverBeforeProcessing,
    /// It crashes after its handler, before the inbox is written.
    ReceiverBeforeCommit,
    /// The acknowledgement is lost.
    AckLost,
    /// The receiver answers later than the sender waits.
    Timeout,
    /// Both crash at once.
    Both,
}

impl Scenario {
    /// Every row, but for two: a message that expires, which needs no crash, and a broken file.
    pub const ALL: [Self; 8] = [
        Self::SenderBeforeWrite,
        Self::SenderBeforeSend,
        Self::Network,
        Self::ReceiverBeforeProcessing,
        Self::ReceiverBeforeCommit,
        Self::AckLost,
        Self::Timeout,
        Self::Both,
    ];

    /// What is promised.
    pub fn promise(self) -> &'static str {
        match self {
            Self::SenderBeforeWrite => "a_sender_that_crashes_before_the_outbox_write_sends_and_changes_nothing",
            Self::SenderBeforeSend => "a_sender_that_crashes_after_the_outbox_write_sends_after_its_restart",
            Self::Network => "a_network_failure_during_a_send_is_retried",
            Self::ReceiverBeforeProcessing => "a_receiver_that_crashes_before_processing_processes_on_the_next_attempt",
            Self::ReceiverBeforeCommit => "a_receiver_that_crashes_before_the_inbox_write_leaves_no_effect",
            Self::AckLost => "a_lost_acknowledgement_is_answered_from_the_inbox",
            Self::Timeout => "a_retry_after_a_timeout_is_recognised",
            Self::Both => "when_both_services_crash_at_once_the_message_is_processed_after_the_restart",
        }
    }

    /// How many kills show it.
    pub fn kills(self) -> u32 {
        match self {
            Self::Network | Self::AckLost | Self::Timeout => 2,
            _ => 6,
        }
    }

    pub(crate) fn stops(self) -> &'static [Stop] {
        match self {
            Self::SenderBeforeWrite => &[Stop::Placing],
            Self::SenderBeforeSend | Self::Network | Self::Timeout => {
                &[Stop::Enqueued, Stop::ClaimedOutbox, Stop::Sending]
            }
            Self::ReceiverBeforeProcessing => &[Stop::Called],
            Self::ReceiverBeforeCommit | Self::Both => &[Stop::Handling],
            Self::AckLost => &[Stop::Visible],
        }
    }

    pub(crate) fn kills_both(self) -> bool {
        self == Self::Both
    }

    pub(crate) fn mix(self) -> &'static [(u32, Fault)] {
        // Longer than the sender waits.
        const LATE: Fault = Fault::Delay(Duration::from_millis(1200));
        match self {
            Self::Network => &[
                (60, Fault::Pass),
                (15, Fault::DropRequest),
                (10, Fault::Reset),
                (10, Fault::Truncate),
                (5, Fault::HalfOpen),
            ],
            Self::AckLost => &[(50, Fault::Pass), (50, Fault::DropResponse)],
            Self::Timeout => &[(95, Fault::Pass), (5, LATE)],
            _ => &[(1, Fault::Pass)],
        }
    }

    /// Whether something must have arrived twice.
    pub(crate) fn makes_duplicates(self) -> bool {
        matches!(self, Self::Network | Self::AckLost | Self::Timeout)
    }
}
