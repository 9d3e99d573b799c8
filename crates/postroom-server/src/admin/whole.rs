//! Whole numbers in JSON. `7.0` is one too, because some languages write them like that.

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::Number;

/// The largest whole number that every language reads exactly.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// An optional number.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was checked to be whole and in range")]
pub(super) fn maybe<'de, D: Deserializer<'de>, T: TryFrom<u64>>(json: D) -> Result<Option<T>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(json)? else { return Ok(None) };
    let whole = match (number.as_u64(), number.as_f64()) {
        (Some(number), _) => number,
        (None, Some(number)) if number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&number) => number as u64,
        _ => return Err(D::Error::custom("wrong, expected a whole number, 0 or more")),
    };
    T::try_from(whole).map(Some).map_err(|_| D::Error::custom("wrong, expected a smaller number"))
}

/// A required number.
pub(super) fn number<'de, D: Deserializer<'de>>(json: D) -> Result<u64, D::Error> {
    maybe(json)?.ok_or_else(|| D::Error::custom("wrong, expected a number"))
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
