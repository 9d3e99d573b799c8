//! Any bytes as what the wire is made of. The forms are such that a person can write them too.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Bytes that are taken apart line by line.
pub(super) struct Lines<'a>(pub(super) &'a [u8]);

impl<'a> Lines<'a> {
    /// The next line; an empty one when there is none.
    pub(super) fn line(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == b'\n');
        let (line, rest) = match end {
            Some(end) => (&self.0[..end], &self.0[end + 1..]),
            None => (self.0, &b""[..]),
        };
        self.0 = rest;
        line
    }

    pub(super) fn text(&mut self) -> String {
        String::from_utf8_lossy(self.line()).into_owned()
    }

    /// A number that depends on every byte of the next line.
    pub(super) fn number(&mut self) -> i64 {
        let written = std::str::from_utf8(self.line()).ok();
        let line = written.unwrap_or_default();
        line.parse().unwrap_or_else(|_| line.bytes().fold(0, |sum: i64, byte| sum.rotate_left(7) ^ i64::from(byte)))
    }
}

/// Headers as `name: value`, an empty line, and a body. What cannot be a header is passed over.
pub(super) fn request(bytes: &[u8]) -> (HeaderMap, &[u8]) {
    let (mut lines, mut headers) = (Lines(bytes), HeaderMap::new());
    loop {
        let line = lines.line();
        if line.is_empty() {
            return (headers, lines.0);
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let value = line[colon + 1..].trim_ascii();
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(&line[..colon]), HeaderValue::from_bytes(value)) {
            let _ = headers.try_append(name, value);
        }
    }
}

/// One change, and where.
pub(super) struct Change {
    pub(super) what: usize,
    at: usize,
    with: String,
}

impl Change {
    /// The first character says what is changed, the second where; the others are put there.
    pub(super) fn of(line: &[u8]) -> Self {
        let (start, with) = line.split_at(line.len().min(2));
        let [what, at] = [0, 1].map(|index| start.get(index).copied().map_or(0, usize::from));
        Self { what, at, with: String::from_utf8_lossy(with).into_owned() }
    }

    /// A character gives way to others, or to none. The text may be the same afterwards.
    pub(super) fn edit(&self, text: &mut String) {
        let characters = text.chars().count();
        let place = self.at % (characters + 1);
        let with = text.chars().take(place).chain(self.with.chars()).chain(text.chars().skip(place + 1));
        *text = with.collect();
    }

    /// The same with bytes.
    pub(super) fn edit_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let (before, after) = bytes.split_at(self.at % (bytes.len() + 1));
        [before, self.with.as_bytes(), after.get(1..).unwrap_or_default()].concat()
    }

    /// Another number, mostly.
    pub(super) fn number(&self) -> i64 {
        Lines(self.with.as_bytes()).number()
    }
}
