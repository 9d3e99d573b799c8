//! Judges the tables in the same way on every database.

use super::{Facts, Finding, Level};

/// Whether the tables exist and have the version that this program knows.
pub(crate) fn is_there(facts: &Facts) -> Option<Finding> {
    let wanted = facts.number("schema.wanted")?;
    let found = facts.number("schema.found");
    let value = found.map_or_else(|| "missing".to_owned(), |version| format!("version {version}"));
    Some(match found {
        Some(version) if version == wanted => Finding::ok("schema", value, "the tables exist and are up to date"),
        Some(version) if version > wanted => Finding::new(
            Level::Warning,
            "schema",
            value,
            format!("a newer program deployed it: this one knows version {wanted} and refuses to open the store"),
            "upgrade this program",
        ),
        Some(_) => Finding::new(
            Level::Warning,
            "schema",
            value,
            format!("this program needs version {wanted} and refuses to open the store"),
            "run `postroom migrate`; programs that know only the older version refuse the newer one",
        ),
        None => Finding::new(
            Level::Warning,
            "schema",
            value,
            "the tables do not exist, so nothing can be stored",
            "run `postroom migrate`, or the SQL that `postroom migrate --print` prints",
        ),
    })
}

/// Whether every message stands in exactly one place. A message that stands nowhere would never be handled.
pub(crate) fn places(facts: &Facts) -> Option<Finding> {
    let wrong = facts.number("places.wrong")?;
    let value = if wrong == 0 { "in order".to_owned() } else { format!("{wrong} misplaced") };
    let means = "messages stand in no place or in two: one would never be handled, the other twice";
    let advice = "stop the workers, look at the views whose names end in _misplaced, and report what they show: it is \
                  a defect, unless somebody wrote to these tables by hand";
    let fine = Finding::ok("places", value, "every message waits, is in progress or has ended, and only one of these");
    Some(fine.only_if(wrong == 0, (Level::Danger, means, advice)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(judge: impl Fn(&Facts) -> Option<Finding>, facts: &Facts) -> Option<Level> {
        judge(facts).map(|finding| finding.level)
    }

    #[test]
    fn a_schema_is_missing_older_newer_or_right() {
        for (found, expected) in [("1", Level::Warning), ("2", Level::Ok), ("3", Level::Warning)] {
            let facts = Facts::from([("schema.wanted", "2"), ("schema.found", found)]);
            assert_eq!(level(is_there, &facts), Some(expected), "{found}");
        }
        for (wrong, expected) in [("0", Level::Ok), ("1", Level::Danger)] {
            assert_eq!(level(places, &Facts::from([("places.wrong", wrong)])), Some(expected), "{wrong}");
        }
        let missing = is_there(&Facts::from([("schema.wanted", "2")])).unwrap();
        assert_eq!((missing.level, missing.value.as_str()), (Level::Warning, "missing"));
    }
}
