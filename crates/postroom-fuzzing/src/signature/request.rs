//! Requests, signed by v2.

use std::slice::from_ref;

use super::{IMPOSTOR, KEY, LONGER, RENAMED};
use crate::input::{Change, Lines};
use postroom_core::message::hash_bytes;
use postroom_core::support::clock::Timestamp;
use postroom_services::wire::Key;
use postroom_services::wire::signature::{Head, Signature};

pub(super) fn only_what_was_signed_is_accepted(change: &Change, lines: Lines<'_>) {
    let head = head(lines);
    let mut header = head.sign(from_ref(&*KEY));
    let signatures = Signature::parse_list(&header);
    let accepts = |head: &Head, key: &Key| head.is_signed(&signatures, from_ref(key), from_ref(&*KEY));
    assert!(accepts(&head, &KEY) && !accepts(&head, &IMPOSTOR) && !accepts(&head, &RENAMED));
    assert!(!head.is_signed(&signatures, &[], from_ref(&*KEY)), "the decoy never counts");

    assert!(!accepts(&head, &LONGER));
    let longer = Signature::parse_list(&head.sign(from_ref(&*LONGER)));
    assert!(head.is_signed(&longer, from_ref(&*LONGER), &[]) && !head.is_signed(&longer, from_ref(&*KEY), &[]));

    let changed = changed(&head, change);
    assert_eq!(accepts(&changed, &KEY), changed == head, "{changed:?}");

    change.edit(&mut header);
    let others = Signature::parse_list(&header);
    let is_there = others.iter().any(|other| signatures.contains(other));
    assert_eq!(head.is_signed(&others, from_ref(&*KEY), from_ref(&*KEY)), is_there, "{header}");
}

fn head(mut lines: Lines<'_>) -> Head {
    Head {
        source: lines.text(),
        destination: lines.text(),
        method: lines.text(),
        path: lines.text(),
        message_id: lines.text(),
        enqueued_at: Timestamp::from_micros(lines.number()),
        due_at: Some(lines.number()).filter(|due| *due != 0).map(Timestamp::from_micros),
        attempt: attempt(lines.number()),
        timestamp: Timestamp::from_micros(lines.number()),
        content_type: lines.text(),
        digest: hash_bytes(lines.0),
    }
}

fn attempt(number: i64) -> u32 {
    u32::try_from(number & 0xffff_ffff).unwrap_or_default()
}

fn changed(head: &Head, change: &Change) -> Head {
    let (mut changed, time) = (head.clone(), Timestamp::from_micros(change.number()));
    let Head { source, destination, method, path, message_id, content_type, .. } = &mut changed;
    match change.what % 13 {
        0 => change.edit(source),
        1 => change.edit(destination),
        2 => change.edit(method),
        3 => change.edit(path),
        4 => change.edit(message_id),
        5 => change.edit(content_type),
        6 => changed.enqueued_at = time,
        7 => changed.due_at = Some(time),
        8 => changed.due_at = None,
        9 => changed.attempt = attempt(change.number()),
        10 => changed.timestamp = time,
        11 => changed.digest = hash_bytes(change.number().to_le_bytes()),
        _ => destination.extend(source.pop()),
    }
    changed
}
