//! Judges the tables in the same way on every database.

use super::{Facts, Finding, Level};

/// Whether the tables exist and have a version that this program works with.
pub(crate) fn is_there(facts: &Facts) -> Option<Finding> {
    let wanted = facts.number("schema.wanted")?;
    let [oldest, needs] = ["schema.oldest", "schema.needs"].map(|name| facts.number(name));
    let found = facts.number("schema.found");
    let value = found.map_or_else(|| "missing".to_owned(), |version| format!("version {version}"));
    let told = |level, meaning: String, advice: &str| Finding::new(level, "schema", value.clone(), meaning, advice);
    Some(match found {
        Some(version) if version == wanted => Finding::ok("schema", value, "the tables exist and are up to date"),
        Some(version) if version > wanted && needs.unwrap_or(version) <= wanted => told(
            Level::Notice,
            format!("a newer program deployed it; this one knows version {wanted} and works with it"),
            "upgrade this program when it suits you",
        ),
        Some(version) if version > wanted => told(
            Level::Warning,
            format!("a newer program deployed it: this one knows version {wanted} and refuses to open the store"),
            "upgrade this program",
        ),
        Some(version) if version >= oldest.unwrap_or(wanted) => told(
            Level::Notice,
            format!("this program works with it, and knows version {wanted}"),
            "run `postroom migrate` when all programs are upgraded; `--check` says what it will do",
        ),
        Some(_) => told(
            Level::Warning,
            format!("this program needs version {wanted} and refuses to open the store"),
            "run `postroom migrate`; `--check` says what it will do, and `--print` shows the SQL. Programs that do not \
             know the newer version refuse it",
        ),
        None => told(
            Level::Warning,
            "the tables do not exist, so nothing can be stored".to_owned(),
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
        for (found, needs, expected) in
            [("1", "1", Level::Notice), ("3", "2", Level::Notice), ("3", "3", Level::Warning)]
        {
            let range =
                [("schema.oldest", "1"), ("schema.wanted", "2"), ("schema.found", found), ("schema.needs", needs)];
            assert_eq!(level(is_there, &Facts::from(range)), Some(expected), "{found}, which needs {needs}");
        }
        for (wrong, expected) in [("0", Level::Ok), ("1", Level::Danger)] {
            assert_eq!(level(places, &Facts::from([("places.wrong", wrong)])), Some(expected), "{wrong}");
        }
        let missing = is_there(&Facts::from([("schema.wanted", "2")])).unwrap();
        assert_eq!((missing.level, missing.value.as_str()), (Level::Warning, "missing"));
    }
}
