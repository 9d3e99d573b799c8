//! Envelopes, signed by v1: it writes the names one after the other, so that it holds only for names of their grammar
//! and for one source, whose key it is.

use std::slice::from_ref;

use serde_json::value::{RawValue, to_raw_value};

use super::{IMPOSTOR, KEY, LONGER};
use crate::input::{Change, Lines};
use postroom_core::message::{Headers, Kind};
use postroom_services::wire::envelope::Envelope;
use postroom_services::wire::signature::{is_signed_v1, sign_v1};

pub(super) fn only_what_was_signed_is_accepted(change: &Change, lines: Lines<'_>) {
    let Some(envelope) = envelope(lines) else { return };
    let signature = sign_v1(&envelope, &KEY);
    assert!(is_signed_v1(&envelope, &signature, from_ref(&*KEY), from_ref(&*KEY)));
    assert!(!is_signed_v1(&envelope, &signature, from_ref(&*IMPOSTOR), from_ref(&*KEY)));
    assert!(!is_signed_v1(&envelope, &signature, &[], from_ref(&*KEY)), "the decoy never counts");
    assert!(!is_signed_v1(&envelope, &signature, from_ref(&*LONGER), &[]));
    assert!(!is_signed_v1(&envelope, &sign_v1(&envelope, &LONGER), from_ref(&*KEY), &[]));

    let changed = changed(&envelope, change);
    let is_same = signed_part(&changed) == signed_part(&envelope);
    if changed.check().is_ok() && changed.source_service_id == envelope.source_service_id {
        assert_eq!(is_signed_v1(&changed, &signature, from_ref(&*KEY), from_ref(&*KEY)), is_same, "{changed:?}");
    }

    let mut other = signature.clone();
    change.edit(&mut other);
    assert_eq!(is_signed_v1(&envelope, &other, from_ref(&*KEY), from_ref(&*KEY)), other == signature, "{other}");
}

fn signed_part(envelope: &Envelope) -> [&str; 4] {
    let Envelope { message_id, source_service_id, endpoint, payload, .. } = envelope;
    [message_id, source_service_id, endpoint, payload.get()]
}

fn envelope(mut lines: Lines<'_>) -> Option<Envelope> {
    let envelope = Envelope {
        source_service_id: lines.text(),
        endpoint: lines.text(),
        message_id: uuid::Uuid::from_u64_pair(lines.number().cast_unsigned(), 1).to_string(),
        correlation_id: None,
        message_type: Kind::Signal.as_str().to_owned(),
        payload: json(&String::from_utf8_lossy(lines.0)),
        headers: Headers::new(),
    };
    envelope.check().ok().map(|()| envelope)
}

/// Any text as JSON: as it is, or as a string.
fn json(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).or_else(|_| to_raw_value(text)).expect("every text can be a JSON string")
}

fn changed(envelope: &Envelope, change: &Change) -> Envelope {
    let mut changed = envelope.clone();
    match change.what % 5 {
        0 => change.edit(&mut changed.message_id),
        1 => change.edit(&mut changed.endpoint),
        2 => {
            let mut payload = changed.payload.get().to_owned();
            change.edit(&mut payload);
            changed.payload = json(&payload);
        }
        3 => changed.endpoint.insert_str(0, &changed.message_id.split_off(18)),
        _ => changed.endpoint.extend(changed.payload.get().chars().next()),
    }
    changed
}
