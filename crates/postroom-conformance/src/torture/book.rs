//! The producer's book: what it tried, and what it knows to be stored. Both are on the disk before it goes on.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};

/// What stands in the book.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// Orders that were begun.
    pub(crate) tried: BTreeSet<u64>,
    /// Orders whose commit was answered.
    pub(crate) acknowledged: BTreeSet<u64>,
}

impl Entries {
    /// Reads the book; a line that was cut off by a kill does not count.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(whole_lines(&text))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut entries = Self::default();
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("try", order)) => entries.tried.insert(order.parse()?),
                Some(("ok", order)) => entries.acknowledged.insert(order.parse()?),
                _ => bail!("the book says {line:?}"),
            };
        }
        Ok(entries)
    }

    /// Orders of which nobody knows whether they are stored.
    pub(crate) fn unknown(&self) -> Vec<u64> {
        self.tried.difference(&self.acknowledged).copied().collect()
    }
}

fn whole_lines(text: &str) -> &str {
    &text[..text.rfind('\n').map_or(0, |end| end + 1)]
}

/// The book, open for writing.
#[derive(Debug)]
pub(crate) struct Book(File);

impl Book {
    /// Opens the book and reads it. Half a line at its end is cut off.
    pub(crate) fn open(path: &Path) -> Result<(Self, Entries)> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let whole = whole_lines(&text);
        file.set_len(u64::try_from(whole.len())?)?;
        let entries = Entries::parse(whole)?;
        Ok((Self(file), entries))
    }

    pub(crate) fn note_tried(&mut self, orders: &[u64]) -> Result<()> {
        self.note("try", orders)
    }

    pub(crate) fn note_acknowledged(&mut self, orders: &[u64]) -> Result<()> {
        self.note("ok", orders)
    }

    /// One fsync for all of them.
    fn note(&mut self, what: &str, orders: &[u64]) -> Result<()> {
        let lines: String = orders.iter().map(|order| format!("{what} {order}\n")).collect();
        self.0.write_all(lines.as_bytes())?;
        Ok(self.0.sync_data()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_is_no_entry() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("book");
        std::fs::write(&path, "try 7\ntry 12\nok 7\nok 1").unwrap();
        let (mut book, entries) = Book::open(&path).unwrap();
        assert_eq!(entries.unknown(), [12]);
        book.note_acknowledged(&[12]).unwrap();
        let entries = Entries::read(&path).unwrap();
        assert_eq!(entries.unknown(), [0u64; 0]);
        assert_eq!(entries.acknowledged.len(), 2);
    }
}
