//! What is digested piece by piece.

use postroom_core::message::digest_pieces;

/// The same bytes, cut in many ways, and parts of them: equal digests only of equal lists.
pub(super) fn no_two_lists_read_the_same(bytes: &[u8]) {
    let (left, right) = bytes.split_at(bytes.len() / 2);
    let lists: [Vec<&[u8]>; 9] = [
        vec![],
        vec![bytes],
        vec![b"", bytes],
        vec![bytes, b""],
        vec![left, right],
        bytes.split(|byte| *byte == b'\n').collect(),
        bytes.split(|byte| *byte == 0).collect(),
        left.split(|byte| *byte == b'\n').collect(),
        right.split(|byte| *byte == b'\n').collect(),
    ];
    let digests = lists.each_ref().map(|list| digest_pieces(list.iter().copied()));
    for (one, digest) in lists.iter().zip(&digests) {
        for (other, other_digest) in lists.iter().zip(&digests) {
            assert_eq!(digest == other_digest, one == other, "{one:?} and {other:?}");
        }
    }
}
