//! Finds a COMMIT in the bytes that a client sends.

use super::address::Wire;

const POSTGRES_QUERY: u8 = b'Q';
const POSTGRES_PARSE: u8 = b'P';
const POSTGRES_SYNC: u8 = b'S';
const MYSQL_QUERY: u8 = 3;
const TDS_BATCH: u8 = 1;
const TDS_HEAD: usize = 8;

/// Reads along with the messages of one client.
#[derive(Debug)]
pub(super) struct Watch {
    wire: Wire,
    /// The beginning of a message whose end has not arrived yet.
    unread: Vec<u8>,
    /// Whether the startup is over: PostgreSQL's first messages have no leading letter.
    introduced: bool,
    /// Whether a COMMIT was prepared, which the next Sync executes.
    prepared: bool,
}

impl Watch {
    pub(super) fn new(wire: Wire) -> Self {
        Self { wire, unread: Vec::new(), introduced: false, prepared: false }
    }

    /// Returns whether a COMMIT ends in these bytes.
    pub(super) fn sees_commit(&mut self, bytes: &[u8]) -> bool {
        self.unread.extend_from_slice(bytes);
        let mut seen = false;
        while let Some(length) = self.message_length().filter(|length| *length <= self.unread.len()) {
            let message: Vec<_> = self.unread.drain(..length).collect();
            seen |= match self.wire {
                Wire::Postgres => self.is_postgres_commit(&message),
                Wire::MySql => is_mysql_commit(&message),
                Wire::Tds => is_tds_commit(&message),
            };
        }
        seen
    }

    /// Returns the length of the first message with its head, once the head has arrived.
    fn message_length(&self) -> Option<usize> {
        match (self.wire, self.unread.as_slice()) {
            // A length includes itself; a smaller value would keep us here forever.
            (Wire::Postgres, [a, b, c, d, ..]) if !self.introduced => Some(big_endian([*a, *b, *c, *d]).max(4)),
            (Wire::Postgres, [_, a, b, c, d, ..]) if self.introduced => Some(1 + big_endian([*a, *b, *c, *d])),
            (Wire::MySql, [a, b, c, _, ..]) => Some(4 + big_endian([0, *c, *b, *a])),
            (Wire::Tds, [_, _, a, b, ..]) => Some(big_endian([0, 0, *a, *b]).max(TDS_HEAD)),
            _ => None,
        }
    }

    fn is_postgres_commit(&mut self, message: &[u8]) -> bool {
        if !self.introduced {
            // Before the startup message, a client may ask for encryption; that request does not have version 3.
            self.introduced = message.get(4..6) == Some(&[0, 3]);
            return false;
        }
        match message.first() {
            Some(&POSTGRES_QUERY) => is_commit(&message[5..]),
            Some(&POSTGRES_PARSE) => {
                let statement = message[5..].split(|byte| *byte == 0).nth(1);
                self.prepared |= statement.is_some_and(is_commit);
                false
            }
            Some(&POSTGRES_SYNC) => std::mem::take(&mut self.prepared),
            _ => false,
        }
    }
}

/// Commands have the number 0; later packets of the same exchange, and the login, do not. A statement that checks the
/// transaction may come before the COMMIT.
fn is_mysql_commit(message: &[u8]) -> bool {
    let [_, _, _, 0, MYSQL_QUERY, text @ ..] = message else { return false };
    text.rsplit(|byte| *byte == b';').next().is_some_and(is_commit) || is_commit(text)
}

/// A batch is text with 16 bits per character, after headers that begin with their length.
fn is_tds_commit(message: &[u8]) -> bool {
    let [TDS_BATCH, _, _, _, _, _, _, _, a, b, c, d, ..] = message else { return false };
    let text = message.get(TDS_HEAD + big_endian([*d, *c, *b, *a])..).unwrap_or_default();
    let plain: Vec<u8> = text.chunks_exact(2).map(|unit| if unit[1] == 0 { unit[0] } else { b'?' }).collect();
    // A query that checks the COMMIT may follow it.
    let first = plain.split(|byte| *byte == b';').next().unwrap_or_default().to_ascii_uppercase();
    is_commit(first.strip_suffix(b" TRANSACTION").unwrap_or(&first))
}

fn is_commit(statement: &[u8]) -> bool {
    let is_padding = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, 0 | b';');
    let end = statement.iter().rposition(|byte| !is_padding(byte)).map_or(0, |last| last + 1);
    statement[..end].trim_ascii_start().eq_ignore_ascii_case(b"COMMIT")
}

fn big_endian(bytes: [u8; 4]) -> usize {
    usize::try_from(u32::from_be_bytes(bytes)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &[u8] = b"\0\0\0\x09\0\x03\0\0\0";
    const ENCRYPTION: &[u8] = b"\0\0\0\x08\x04\xd2\x16\x2f";

    fn postgres(messages: &[&[u8]]) -> Vec<bool> {
        let mut watch = Watch::new(Wire::Postgres);
        messages.iter().map(|message| watch.sees_commit(message)).collect()
    }

    #[test]
    fn a_commit_to_postgres_is_seen_in_either_form() {
        let simple = b"Q\0\0\0\x0bCOMMIT\0";
        assert_eq!(postgres(&[HELLO, b"Q\0\0\0\x0aBEGIN\0", simple]), [false, false, true]);
        assert_eq!(postgres(&[ENCRYPTION, HELLO, b"Q\0\0\0\x0ccommit;\0"]), [false, false, true]);
        assert_eq!(postgres(&[HELLO, b"P\0\0\0\x0fs\0COMMIT\0\0\0S\0\0\0\x04"]), [false, true]);
        assert_eq!(postgres(&[HELLO, b"Q\0\0\0\x13COMMIT PREPARED\0"]), [false, false]);
    }

    #[test]
    fn a_commit_in_pieces_is_seen_at_its_end() {
        assert_eq!(
            postgres(&[b"\0\0\0", b"\x09\0\x03\0\0\0Q\0", b"\0\0\x0bCOMM", b"IT\0"]),
            [false, false, false, true]
        );
    }

    #[test]
    fn a_commit_to_mysql_is_a_command_of_its_own() {
        let mut watch = Watch::new(Wire::MySql);
        assert!(!watch.sees_commit(b"\x07\0\0\x01\x03COMMIT"), "a login");
        assert!(!watch.sees_commit(b"\x07\0\0\0\x16COMMIT"), "another command");
        assert!(!watch.sees_commit(b"\x07\0\0\0\x03COM"));
        assert!(watch.sees_commit(b"MIT"));
        assert!(watch.sees_commit(b"\x15\0\0\0\x03RELEASE here; COMMIT"), "after a check");
        assert!(!watch.sees_commit(b"\x0f\0\0\0\x03COMMIT; SELECT"));
    }

    /// Builds a batch as a client sends it.
    fn batch(text: &str) -> Vec<u8> {
        let text = text.encode_utf16().flat_map(u16::to_le_bytes);
        let data: Vec<u8> = [4, 0, 0, 0].into_iter().chain(text).collect();
        let length = u16::try_from(TDS_HEAD + data.len()).unwrap().to_be_bytes();
        [&[TDS_BATCH, 1, length[0], length[1], 0, 0, 1, 0][..], &data].concat()
    }

    #[test]
    fn a_commit_to_sql_server_is_a_batch_of_its_own() {
        let mut watch = Watch::new(Wire::Tds);
        assert!(!watch.sees_commit(&batch("BEGIN TRANSACTION; SELECT 1")));
        assert!(watch.sees_commit(&batch("COMMIT")));
        assert!(watch.sees_commit(&batch("COMMIT TRANSACTION; IF @@TRANCOUNT > 0 ROLLBACK")));
        assert!(!watch.sees_commit(&[&[3][..], &batch("COMMIT")[1..]].concat()), "a call");
        assert!(!watch.sees_commit(&batch("commit;")[..12]));
        assert!(watch.sees_commit(&batch("commit;")[12..]), "in pieces");
    }
}
