//! Timestamps as text.

use std::fmt;
use std::str::FromStr;

use crate::support::clock::Timestamp;
use crate::support::error::{Error, Result};

/// The years 0000 to 9999; RFC 3339 has no others.
const SECONDS: std::ops::Range<i64> = -62_167_219_200..253_402_300_800;

/// Formats the time by RFC 3339 in UTC, with microseconds: `2026-02-14T12:00:00.000000Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, fraction) = (self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000));
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z")
    }
}

/// Returns the year, month and day of a day number counted from 1970-01-01 (Howard Hinnant's `civil_from_days`).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Parses RFC 3339 with any offset. Digits beyond microseconds are dropped; a leap second becomes the moment after it.
impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text.as_bytes()).map(Self).ok_or_else(|| {
            Error::invalid("not an RFC 3339 time such as 2026-02-14T12:00:00Z or 2026-02-14T13:00:00.5+01:00")
        })
    }
}

fn parse(text: &[u8]) -> Option<i64> {
    let (time, rest) = text.split_at_checked(19)?;
    let [_, _, _, _, b'-', _, _, b'-', _, _, b'T' | b't', _, _, b':', _, _, b':', _, _] = time else { return None };
    let field = |from: usize, to: usize, allowed: std::ops::RangeInclusive<i64>| {
        digits(&time[from..to]).filter(|number| allowed.contains(number))
    };
    let (year, month) = (field(0, 4, 0..=9999)?, field(5, 7, 1..=12)?);
    let (day, hour) = (field(8, 10, 1..=31)?, field(11, 13, 0..=23)?);
    let (minute, second) = (field(14, 16, 0..=59)?, field(17, 19, 0..=60)?);
    let days = days(year, month, day);
    if civil(days) != (year, month, day) {
        return None; // the month has no such day
    }
    let (fraction, zone) = fraction(rest)?;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset(zone)?;
    if !SECONDS.contains(&seconds) {
        return None; // in UTC, the year is out of range
    }
    // The fraction of a leap second would be after the second that follows it.
    Some(seconds * 1_000_000 + if second == 60 { 0 } else { fraction })
}

/// Returns the microseconds after the point, if there is one, and the rest of the text.
fn fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    let Some(rest) = rest.strip_prefix(b".") else { return Some((0, rest)) };
    let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let (fraction, rest) = rest.split_at(end);
    let known = digits(&fraction[..end.min(6)])?;
    let missing = u32::try_from(6_usize.saturating_sub(end)).ok()?;
    Some((known * 10_i64.pow(missing), rest))
}

/// Returns the offset from UTC in seconds, positive for zones ahead of UTC.
fn offset(zone: &[u8]) -> Option<i64> {
    if let b"Z" | b"z" = zone {
        return Some(0);
    }
    let [sign, h1, h2, b':', m1, m2] = *zone else { return None };
    let hours = digits(&[h1, h2]).filter(|hours| *hours <= 23)?;
    let minutes = digits(&[m1, m2]).filter(|minutes| *minutes <= 59)?;
    match sign {
        b'+' => Some(hours * 3600 + minutes * 60),
        b'-' => Some(-(hours * 3600 + minutes * 60)),
        _ => None,
    }
}

/// Parses a number of at least one digit, without a sign.
fn digits(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Returns the day number of a date, counted from 1970-01-01; the inverse of `civil`.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_printed_as_rfc_3339() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_001, "2000-02-29T00:00:00.000001Z"),
            (1_771_070_400_000_000, "2026-02-14T12:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(Timestamp::from_micros(micros).to_string(), text);
        }
    }

    #[test]
    fn what_is_printed_can_be_read() {
        let mut random = fastrand::Rng::with_seed(3339);
        let (first, last) = (SECONDS.start * 1_000_000, SECONDS.end * 1_000_000 - 1);
        for micros in (0..10_000).map(|_| random.i64(first..=last)).chain([first, last]) {
            let moment = Timestamp::from_micros(micros);
            assert_eq!(moment.to_string().parse::<Timestamp>().unwrap(), moment);
        }
    }

    #[test]
    fn rfc_3339_is_read_with_offsets_and_fractions() {
        // The examples of the RFC, and the edges of each part.
        for (text, in_utc) in [
            ("1985-04-12T23:20:50.52Z", "1985-04-12T23:20:50.520000Z"),
            ("1996-12-19T16:39:57-08:00", "1996-12-20T00:39:57.000000Z"),
            ("1990-12-31T23:59:60Z", "1991-01-01T00:00:00.000000Z"),
            ("1990-12-31T15:59:60.9-08:00", "1991-01-01T00:00:00.000000Z"),
            ("1937-01-01T12:00:27.87+00:20", "1937-01-01T11:40:27.870000Z"),
            ("2018-04-05t17:31:00z", "2018-04-05T17:31:00.000000Z"),
            ("2024-02-29T00:00:00-00:00", "2024-02-29T00:00:00.000000Z"),
            ("2025-10-04T15:13:32.232083866Z", "2025-10-04T15:13:32.232083Z"),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000000Z"),
            ("9999-12-31T23:59:59.999999+23:59", "9999-12-31T00:00:59.999999Z"),
        ] {
            assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), in_utc, "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2026-02-14",
            "2026-02-14T12:00:00",
            "2026-02-14T12:00Z",
            "2026-02-14 12:00:00Z",
            "2026-02-14T12:00:00.Z",
            "2026-02-14T12:00:00,5Z",
            "2026-02-14T12:00:00+0100",
            "2026-02-14T12:00:00+24:00",
            "2026-02-14T12:00:00+00:60",
            "2026-02-14T12:00:00Z ",
            "2026-02-14T24:00:00Z",
            "2026-02-14T12:60:00Z",
            "2026-02-14T12:00:61Z",
            "2026-02-30T12:00:00Z",
            "2023-02-29T12:00:00Z",
            "2026-00-14T12:00:00Z",
            "2026-13-14T12:00:00Z",
            "2026-02-00T12:00:00Z",
            "+026-02-14T12:00:00Z",
            "12026-02-14T12:00:00Z",
            "2026-02-14T12:00:00Ä",
            "２026-02-14T12:00:00Z",
            "9999-12-31T23:59:59-00:01",
            "9999-12-31T23:59:60Z",
            "0000-01-01T00:00:00+00:01",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }
}
