//! Checks when a certificate is valid, so that its owner notices a problem before the clients do.

use postroom_core::support::clock::Timestamp;
use postroom_core::support::error::{Error, Result};

const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Refuses a certificate that has expired, or is not valid yet.
pub(super) fn check(certificate: &[u8], now: Timestamp) -> Result<()> {
    match validity(certificate) {
        None => Err(Error::invalid("the certificate cannot be read")),
        Some((_, until)) if until < now => Err(Error::invalid(format!("the certificate expired at {until}"))),
        Some((from, _)) if now < from => Err(Error::invalid(format!("the certificate is not valid before {from}"))),
        Some(_) => Ok(()),
    }
}

/// Returns from when until when it is valid (RFC 5280, 4.1): the fifth signed field, if the version is the first.
fn validity(certificate: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let signed = element(element(certificate)?.held)?.held;
    let first = element(signed)?;
    let mut rest = if first.tag == VERSION { first.rest } else { signed };
    for _ in ["serial number", "algorithm", "issuer"] {
        rest = element(rest)?.rest;
    }
    let from = element(element(rest)?.held)?;
    Some((time(&from)?, time(&element(from.rest)?)?))
}

/// One value of DER.
struct Element<'d> {
    tag: u8,
    held: &'d [u8],
    rest: &'d [u8],
}

fn element(der: &[u8]) -> Option<Element<'_>> {
    let (&[tag, first], rest) = der.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (held, rest) = rest.split_at_checked(length)?;
    Some(Element { tag, held, rest })
}

/// Parses `YYMMDDhhmmssZ`, used until 2049, or the form with a four-digit year, used from then on.
fn time(element: &Element<'_>) -> Option<Timestamp> {
    let text = std::str::from_utf8(element.held).ok()?;
    let (year, rest) = match element.tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            (format!("{}{year}", if year < "50" { "20" } else { "19" }), rest)
        }
        GENERALIZED_TIME => text.split_at_checked(4).map(|(year, rest)| (year.to_owned(), rest))?,
        _ => return None,
    };
    let digits = |at: usize| rest.get(at..at + 2);
    let (month, day, hour) = (digits(0)?, digits(2)?, digits(4)?);
    format!("{year}-{month}-{day}T{hour}:{}:{}Z", digits(6)?, digits(8)?).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let held = parts.concat();
        [&[tag, 0x81, u8::try_from(held.len()).unwrap()], held.as_slice()].concat()
    }

    /// Builds the beginning of a certificate, with or without a version.
    fn certificate(version: &[u8], from: &[u8], until: &[u8]) -> Vec<u8> {
        let (serial, algorithm, issuer) = ([2, 1, 7], [0x30, 0], [0x30, 2, 5, 0]);
        let signed = wrapped(0x30, &[version, &serial, &algorithm, &issuer, &wrapped(0x30, &[from, until])]);
        wrapped(0x30, &[&signed, &[0x30, 0]])
    }

    #[test]
    fn a_certificate_is_good_from_its_first_second_to_its_last() {
        let from = [&[UTC_TIME, 13], b"261116100000Z".as_slice()].concat();
        let until = [&[GENERALIZED_TIME, 15], b"20501116100000Z".as_slice()].concat();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        for version in [[VERSION, 3, 2, 1, 2].as_slice(), &[]] {
            let certificate = certificate(version, &from, &until);
            let checked = |time: &str| check(&certificate, at(time)).map_err(|error| error.to_string());
            assert_eq!(checked("2026-11-16T10:00:00Z"), Ok(()));
            assert_eq!(checked("2050-11-16T10:00:00Z"), Ok(()));
            let early = checked("2026-11-16T09:59:59Z").unwrap_err();
            assert!(early.contains("not valid before 2026-11-16T10:00:00"), "{early}");
            let late = checked("2050-11-16T10:00:01Z").unwrap_err();
            assert!(late.contains("expired at 2050-11-16T10:00:00"), "{late}");
        }
    }

    #[test]
    fn what_is_no_certificate_is_refused_whatever_it_is() {
        let from = [&[UTC_TIME, 13], b"261116100000Z".as_slice()].concat();
        let whole = certificate(&[], &from, &from);
        for length in 0..whole.len() {
            assert!(check(&whole[..length], Timestamp::from_micros(0)).is_err(), "{length}");
        }
        let odd = certificate(&[], &[UTC_TIME, 2, 0xff, 0xff], &from);
        assert!(check(&odd, Timestamp::from_micros(0)).is_err());
        assert!(check(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], Timestamp::from_micros(0)).is_err());
    }
}
