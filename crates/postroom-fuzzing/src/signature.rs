//! Signatures: what was signed is accepted, what was changed in any way is not.

mod pieces;
mod receipt;
mod request;
mod v1;

use std::sync::LazyLock;

use super::input::{Change, Lines};
use postroom_services::wire::signature::Signature;
use postroom_services::wire::{HmacAlgorithm, Key, Secret};

/// With one key, another of the same id, another id of the same secret, and the same by another algorithm.
static KEY: LazyLock<Key> = LazyLock::new(|| key("2026-11", "an example secret, long enough to be one"));
static IMPOSTOR: LazyLock<Key> = LazyLock::new(|| key("2026-11", "another secret, just as long as the other"));
static RENAMED: LazyLock<Key> = LazyLock::new(|| key("2026-12", "an example secret, long enough to be one"));
static LONGER: LazyLock<Key> = LazyLock::new(|| KEY.clone().algorithm(HmacAlgorithm::Sha512));

/// First a line with a change, then what is signed: one field a line.
pub fn signature(bytes: &[u8]) {
    lists_come_back(&String::from_utf8_lossy(bytes));
    let mut lines = Lines(bytes);
    let change = Change::of(lines.line());
    request::only_what_was_signed_is_accepted(&change, Lines(lines.0));
    receipt::only_what_was_signed_is_accepted(&change, Lines(lines.0));
    v1::only_what_was_signed_is_accepted(&change, Lines(lines.0));
    pieces::no_two_lists_read_the_same(lines.0);
}

fn key(id: &str, secret: &str) -> Key {
    let secret = Secret::parse(secret).expect("a good secret");
    Key::new(id, secret).expect("a good id")
}

fn lists_come_back(text: &str) {
    for header in [text].into_iter().chain(text.lines()) {
        let signatures = Signature::parse_list(header);
        let written: Vec<_> = signatures.iter().map(ToString::to_string).collect();
        assert_eq!(Signature::parse_list(&written.join(",")), signatures, "{header}");
        // What was left out was no signature, or stood behind too many.
        assert!(written.iter().all(|signature| header.contains(signature.as_str())), "{header}");
    }
}
