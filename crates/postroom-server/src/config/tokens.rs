//! `[tokens.NAME]`: the clients of the admin listener, and what they may do.

use postroom::clock::Timestamp;

use super::reader::Section;
use super::sections::check_name;
use crate::admin::{Rights, Token, digest};

pub(super) fn token((name, mut section): (String, Section<'_>)) -> Option<Token> {
    check_name(&section, &name, &section.at, "the name of a token");
    let digests = digests(&mut section);
    let may = section.list("may").unwrap_or_default();
    let words: Vec<_> = may.iter().map(|(word, _)| word.as_str()).collect();
    let rights = Rights::new(&name, &words);
    if let Err(why) = &rights {
        let at = section.place_of("may").unwrap_or_else(|| section.at.clone());
        section.mistake(&at, format!("`may` in {}: {why}", section.title));
    }
    let expires = expires(&mut section);
    section.finish();
    rights.ok().map(|rights| Token { digests, rights, expires })
}

fn digests(section: &mut Section<'_>) -> Vec<[u8; 32]> {
    let texts = section.list("digests").unwrap_or_default();
    if texts.is_empty() {
        let at = section.place_of("digests").unwrap_or_else(|| section.at.clone());
        let how = "`postroom token NAME` creates a token and prints this section";
        section.mistake(&at, format!("{} needs `digests`, the SHA-256 digests of its token; {how}", section.title));
    }
    let mut digests = Vec::new();
    for (text, at) in texts {
        match digest(&text) {
            Ok(digest) => digests.push(digest),
            // The value may be the token itself, so the message does not repeat it.
            Err(why) => section.mistake(&at, format!("`digests` in {}: {why}", section.title)),
        }
    }
    digests
}

/// A day, from whose start the token is invalid, or a time.
fn expires(section: &mut Section<'_>) -> Option<Timestamp> {
    let (text, at) = section.text("expires")?;
    let moment = text.parse().or_else(|_| format!("{text}T00:00:00Z").parse());
    if moment.is_err() {
        let forms = "a day like \"2027-06-30\", or a time like \"2027-06-30T18:00:00Z\"";
        section.mistake(&at, format!("`expires` in {} must be {forms}", section.title));
    }
    moment.ok()
}
