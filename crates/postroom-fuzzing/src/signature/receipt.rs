//! Receipts: what a receiver answered, signed by v2.

use std::slice::from_ref;

use super::{IMPOSTOR, KEY, LONGER, RENAMED};
use crate::input::{Change, Lines};
use postroom_core::message::hash_bytes;
use postroom_core::support::clock::Timestamp;
use postroom_services::wire::Key;
use postroom_services::wire::signature::{Receipt, Signature};

pub(super) fn only_what_was_signed_is_accepted(change: &Change, lines: Lines<'_>) {
    let receipt = receipt(lines);
    let signatures = Signature::parse_list(&receipt.sign(from_ref(&*KEY)));
    let accepts = |receipt: &Receipt, key: &Key| receipt.is_signed(&signatures, from_ref(key));
    assert!(accepts(&receipt, &KEY) && !accepts(&receipt, &IMPOSTOR) && !accepts(&receipt, &RENAMED));

    assert!(!accepts(&receipt, &LONGER));

    let changed = changed(&receipt, change);
    assert_eq!(accepts(&changed, &KEY), changed == receipt, "{changed:?}");
}

fn receipt(mut lines: Lines<'_>) -> Receipt {
    Receipt {
        destination: lines.text(),
        message_id: lines.text(),
        timestamp: Timestamp::from_micros(lines.number()),
        status: status(lines.number()),
        beside: None,
        digest: hash_bytes(lines.0),
    }
}

fn status(number: i64) -> u16 {
    u16::try_from(number & 0xffff).unwrap_or_default()
}

fn changed(receipt: &Receipt, change: &Change) -> Receipt {
    let mut changed = receipt.clone();
    match change.what % 7 {
        0 => change.edit(&mut changed.destination),
        1 => change.edit(&mut changed.message_id),
        2 => changed.timestamp = Timestamp::from_micros(change.number()),
        3 => changed.status = status(change.number()),
        4 => changed.digest = hash_bytes(change.number().to_le_bytes()),
        5 => changed.beside = Some([change.number().to_string(), String::new()]),
        _ => changed.message_id.extend(changed.destination.pop()),
    }
    changed
}
