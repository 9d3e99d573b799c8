//! Durations as people write them: `250ms`, `10s`, `5m`, `2h`, `7d`.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a whole number with a unit.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() || (unit.is_empty() && number != "0") {
        return Err(format!("{text:?} is not a duration; write a whole number and ms, s, m, h or d, like 10s"));
    }
    if unit.is_empty() {
        return Ok(Duration::ZERO);
    }
    let Some(millis) = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, millis)| millis) else {
        return Err(format!("{unit:?} is not a unit of time; write ms, s, m, h or d, like {number}s"));
    };
    let total = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*millis));
    total.map(Duration::from_millis).ok_or_else(|| format!("{text:?} is too long; write a shorter duration"))
}

/// Reads a duration that is longer than zero.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("it must be longer than zero, like 10s".into()),
        span => Ok(span),
    }
}

/// A duration in its largest unit: `250ms`, `12s`, `3m`.
pub(crate) fn short(span: Duration) -> String {
    let total = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let unit = UNITS.iter().rev().find(|(_, millis)| total >= *millis);
    unit.map_or_else(|| "0s".into(), |(name, millis)| format!("{}{name}", total / millis))
}

/// The same, rounded up: a duration of this length is long enough.
pub(crate) fn at_least(span: Duration) -> String {
    let total = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let unit = UNITS.iter().rev().find(|(_, millis)| total >= *millis);
    unit.map_or_else(|| "0s".into(), |(name, millis)| format!("{}{name}", total.div_ceil(*millis)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, millis) in
            [("250ms", 250), ("10s", 10_000), ("5m", 300_000), ("2h", 7_200_000), ("7d", 604_800_000), ("0", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for text in ["", "s", "10", "-5s", "1.5h", "10 s", "10sec", "5M", "١s", "99999999999999999999d"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("write"), "{text}: {error}");
        }
        assert!(parse_positive("0s").is_err());
    }

    #[test]
    fn a_span_is_told_in_its_largest_unit() {
        for (millis, text) in [(0, "0s"), (250, "250ms"), (59_999, "59s"), (60_000, "1m"), (172_800_000, "2d")] {
            assert_eq!(short(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn a_least_duration_is_rounded_up() {
        for (millis, text) in [(0, "0s"), (250, "250ms"), (59_001, "60s"), (60_000, "1m"), (172_800_001, "3d")] {
            assert_eq!(at_least(Duration::from_millis(millis)), text);
        }
    }
}
