//! Output to stdout.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use postroom::clock::{Clock, Timestamp};
use postroom::operator::{Hold, Rule};
use postroom::queue::{Queue, State};
use serde::Serialize;

use crate::duration;

/// What is shown instead of a payload that the inbox no longer keeps.
pub(crate) const PAYLOAD_DROPPED: &str = "dropped, because the message was done long ago";

/// Prints one line of text. Unlike `println!`, it does not panic when the reader is gone.
pub(crate) fn line(text: impl AsRef<str>) -> Result<()> {
    // One write, so that the lines of concurrent tasks do not mix.
    let line = format!("{}\n", text.as_ref());
    Ok(std::io::stdout().lock().write_all(line.as_bytes())?)
}

/// Prints one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    line(serde_json::to_string(value)?)
}

/// The name of a state.
pub(crate) fn state(state: State) -> String {
    format!("{state:?}").to_lowercase()
}

/// A time and its distance from now.
pub(crate) fn moment(at: Timestamp) -> String {
    moment_from(at, Clock::Database.now())
}

/// A time and its distance from the given `now`.
pub(crate) fn moment_from(at: Timestamp, now: Timestamp) -> String {
    let away = match (at.since(now), now.since(at)) {
        (Duration::ZERO, past) => format!("{} ago", duration::short(past)),
        (future, _) => format!("in {}", duration::short(future)),
    };
    format!("{at} ({away})")
}

/// `1 message`, `2 messages`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Foreign text in one line, without control characters.
pub(crate) fn one_line(text: &str) -> String {
    let text = text.trim().replace('\n', " ⏎ ");
    // Bidirectional controls would change how the rest of the line reads.
    let is_hidden = |sign: char| sign.is_control() || matches!(sign, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|sign| if is_hidden(sign) { ' ' } else { sign }).collect()
}

/// The text, shortened to this many columns.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

/// A number with separators: `12,345`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What an operator set: `the topic order.paid in the outbox is paused since 2026-11-16 02:14 UTC by ada: they migrate;
/// 412 messages wait`.
pub(crate) fn rule(queue: Queue, rule: &Rule) -> String {
    let about = format!("{} in the {queue}", one_line(&rule.scope.to_string()));
    let paused = rule.paused.as_ref().map(|pause| {
        let why = pause.why.as_deref().map_or_else(String::new, |why| format!(": {}", one_line(why)));
        format!("is paused since {} by {}{why}", minute(pause.since), one_line(&pause.by))
    });
    let limited = rule.limit.map(|limit| format!("is limited to {limit}"));
    let set = paused.into_iter().chain(limited).collect::<Vec<_>>().join(", and ");
    let waiting = if rule.scope.place().is_some() { format!("; {}", counted(rule.waiting)) } else { String::new() };
    format!("{about} {set}{waiting}")
}

/// `412 messages wait`.
fn counted(waiting: u64) -> String {
    match waiting {
        many if many >= WAITING_COUNTED => format!("more than {} messages wait", thousands(WAITING_COUNTED)),
        1 => "1 message waits".to_owned(),
        some => format!("{} messages wait", thousands(some)),
    }
}

/// `2026-11-16 02:14 UTC`.
pub(crate) fn minute(at: Timestamp) -> String {
    let at = at.to_string();
    let (day, time) = at.split_once('T').unwrap_or((at.as_str(), ""));
    format!("{day} {} UTC", time.get(..5).unwrap_or(time))
}

/// The held messages of one place: `412 messages wait for inventory since 2026-11-16 02:14 UTC: it is down`.
pub(crate) fn waiting(hold: &Hold) -> String {
    let (waiting, since) = (counted(hold.waiting), minute(hold.since));
    format!("{waiting} for {} since {since}: {}", one_line(&hold.place.to_string()), one_line(&hold.why))
}

/// The database counts at most this many held messages of one place.
const WAITING_COUNTED: u64 = 10_000;

/// A hold as JSON.
#[derive(Serialize)]
pub(crate) struct HoldJson {
    kind: &'static str,
    name: String,
    since: String,
    tried_at: String,
    code: Option<&'static str>,
    why: String,
    waiting: u64,
}

impl From<&Hold> for HoldJson {
    fn from(hold: &Hold) -> Self {
        Self {
            kind: hold.place.kind(),
            name: hold.place.name().to_owned(),
            since: hold.since.to_string(),
            tried_at: hold.tried_at.to_string(),
            code: hold.cause.map(postroom::queue::Cause::code),
            why: hold.why.clone(),
            waiting: hold.waiting,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(thousands(number), text);
        }
    }

    #[test]
    fn a_foreign_text_stays_in_its_place() {
        assert_eq!(one_line(" broken\nby \u{1b}[2Jsomeone\n"), "broken ⏎ by  [2Jsomeone");
        assert_eq!((cut("größer", 6).as_str(), cut("größer", 4).as_str()), ("größer", "grö…"));
    }
}
