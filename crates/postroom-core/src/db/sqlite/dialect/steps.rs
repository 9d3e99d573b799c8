//! How tables of an older version are carried to the newest.

use crate::sql::steps::{Step, Steps};

pub(crate) const STEPS: Steps = Steps {
    // A table is set aside under another name. What other tables and triggers say about it must stay as it is.
    begin: "PRAGMA foreign_keys = OFF;\nPRAGMA legacy_alter_table = ON;\nBEGIN IMMEDIATE;\n",
    commit: "COMMIT;\nPRAGMA legacy_alter_table = OFF;\nPRAGMA foreign_keys = ON;\n",
    list: &[Step {
        to: 2,
        text: include_str!("../schema/0002_places.sql"),
        each: include_str!("../schema/0002_each.sql"),
        atomic: true,
        needs: 2,
        works_from: 2,
    }],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::sqlite::dialect::SQLITE;
    use crate::sql::TableNames;
    use crate::sql::dialect::Dialect;
    use crate::sql::steps::{Found, Known, Way};
    use crate::support::error::ErrorKind;

    const fn later(to: i64, needs: i64, works_from: i64) -> Step {
        Step { to, text: "SELECT 1;\n\nSELECT 2;\n", each: "", atomic: false, needs, works_from }
    }

    /// A program of the future. Its last two steps only add what others can do without.
    const FUTURE: Dialect = Dialect {
        schema_version: 5,
        steps: &Steps { list: &[later(3, 3, 3), later(4, 3, 3), later(5, 3, 3)], ..STEPS },
        ..SQLITE
    };

    fn at(version: i64) -> Option<Found> {
        Some(Found { version, needs: version })
    }

    fn targets(from: Option<Found>, to: Option<i64>) -> Vec<i64> {
        let way = Way::new(&FUTURE, &TableNames::default());
        way.plan(from, to).unwrap().iter().map(|change| change.to).collect()
    }

    #[test]
    fn a_way_has_every_step_and_ends_where_it_is_told_to() {
        assert_eq!(targets(at(2), None), [3, 4, 5]);
        assert_eq!(targets(at(2), Some(4)), [3, 4]);
        assert_eq!(targets(at(3), Some(3)), [0; 0]);
        assert_eq!(targets(at(5), None), [0; 0]);
        assert_eq!(targets(None, None), [5], "new tables have the newest version at once");
        assert_eq!(targets(Some(Found { version: 7, needs: 5 }), None), [0; 0], "they are newer");
    }

    #[test]
    fn a_version_that_cannot_be_reached_is_refused() {
        let way = Way::new(&FUTURE, &TableNames::default());
        let refused = |from, to| way.plan(from, to).unwrap_err();
        for (from, to, allowed) in [(at(3), 2, "3 to 5"), (at(3), 6, "3 to 5"), (at(5), 4, "5 is"), (None, 4, "5 only")]
        {
            let error = refused(from, Some(to));
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(allowed), "{error}");
        }
        assert_eq!(refused(at(1), None).kind(), ErrorKind::Schema, "there is no step from version 1");
        assert_eq!(refused(at(6), None).kind(), ErrorKind::Schema, "it is newer");
    }

    #[test]
    fn a_program_works_with_a_range_of_versions() {
        let (now, then) = (Known::new(&SQLITE), Known::new(&FUTURE));
        let works = |known: Known, version, needs| known.check(Found { version, needs }).is_ok();
        assert!(works(now, 2, 2) && !works(now, 1, 1));
        assert!(works(now, 3, 2), "the newer version says that programs of version 2 can go on");
        assert!(!works(now, 3, 3));
        assert!(works(then, 3, 3) && works(then, 4, 3) && works(then, 5, 3), "before the others are upgraded");
        assert!(!works(then, 2, 2));
        let why = now.check(Found { version: 9, needs: 7 }).unwrap_err().to_string();
        assert!(why.contains("version 9 and needs a program that knows at least version 7; this one knows version 2"));
    }

    #[test]
    fn a_step_ends_with_its_version() {
        let way = Way::new(&FUTURE, &TableNames::default());
        let text = &way.plan(at(3), Some(4)).unwrap()[0].text;
        let (_, last) = text.rsplit_once("\n\n").unwrap();
        assert!(last.starts_with("UPDATE postroom_schema SET version = 4, needs = 3"), "{text}");
        assert!(way.told(at(3), Some(4)).unwrap().sql == *text, "no transaction is written around it");
    }

    /// `{tables}` is the newest version. Once there is a newer one, the step must say what it created itself.
    #[test]
    fn only_the_last_step_creates_the_tables_of_today() {
        let (last, before) = STEPS.list.split_last().unwrap();
        assert_eq!(last.to, SQLITE.schema_version);
        assert!(before.iter().all(|step| !step.text.contains("{tables}")));
        let from = STEPS.list.first().map_or(0, |step| step.to);
        assert!((from..).zip(STEPS.list).all(|(number, step)| step.to == number), "a number is missing");
    }
}
