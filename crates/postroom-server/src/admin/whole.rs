//! Whole numbers in JSON: `7.0` is one too, and some languages write them so.

use serde::de::{Deserialize, Deserializer, Error};

/// The largest whole number that every language reads as itself.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Number {
    Whole(u64),
    Point(f64),
}

/// A number that may be left out.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was checked to be whole and in range")]
pub(super) fn maybe<'de, D: Deserializer<'de>, T: TryFrom<u64>>(json: D) -> Result<Option<T>, D::Error> {
    let number = match Option::<Number>::deserialize(json)? {
        None => return Ok(None),
        Some(Number::Whole(number)) => number,
        Some(Number::Point(number)) if number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&number) => number as u64,
        Some(Number::Point(_)) => return Err(D::Error::custom("no whole number")),
    };
    T::try_from(number).map(Some).map_err(|_| D::Error::custom("too large a number"))
}

/// A number that must be there.
pub(super) fn number<'de, D: Deserializer<'de>>(json: D) -> Result<u64, D::Error> {
    maybe(json)?.ok_or_else(|| D::Error::custom("no number"))
}

#[cfg(test)]
mod tests {
    #[derive(serde::Deserialize)]
    struct Asked {
        #[serde(default, deserialize_with = "super::maybe")]
        limit: Option<u32>,
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_point() {
        let read = |text: &str| serde_json::from_str::<Asked>(text).ok().map(|asked| asked.limit);
        for (text, expected) in [
            ("{}", Some(None)),
            (r#"{"limit":null}"#, Some(None)),
            (r#"{"limit":7}"#, Some(Some(7))),
            (r#"{"limit":7.0}"#, Some(Some(7))),
            (r#"{"limit":7.5}"#, None),
            (r#"{"limit":-1}"#, None),
            (r#"{"limit":-1.0}"#, None),
            (r#"{"limit":5000000000}"#, None),
            (r#"{"limit":1e300}"#, None),
            (r#"{"limit":"7"}"#, None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
