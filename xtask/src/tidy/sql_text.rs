//! Rule: SQL is in the dialects of the databases, in files of the same names, so that it can be compared.

use super::{
    Violation,
    source::{Source, numbered},
};

/// The crates that may contain SQL only there.
const LIBRARIES: &[&str] =
    &["crates/postroom-core/src/", "crates/postroom-services/src/", "crates/postroom-idempotent/src/"];
/// The SQL that all dialects share.
const SHARED: &[&str] = &["crates/postroom-core/src/sql.rs", "crates/postroom-core/src/sql/"];
const DATABASES: &str = "crates/postroom-core/src/db/";
/// The files in a database's folder that may contain its own statements.
const DIALECTS: &[&str] = &["/dialect.rs", "/dialect/", "/doctor/questions.rs"];
const STATEMENTS: &[&str] = &["SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM", "CREATE TABLE"];

pub(super) fn sql_elsewhere(source: &Source) -> Vec<Violation> {
    let Some(rust) = &source.rust else { return Vec::new() };
    let path = source.path.as_str();
    let is_at_home = SHARED.iter().any(|home| path.starts_with(home))
        || path.starts_with(DATABASES) && DIALECTS.iter().any(|home| path.contains(home));
    if is_at_home || !LIBRARIES.iter().any(|library| path.starts_with(library)) {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (line, text) in numbered(&rust.layers.strings) {
        let statement = STATEMENTS.iter().find(|statement| text.contains(*statement));
        if let Some(statement) = statement.filter(|_| !rust.is_test(line)) {
            let advice =
                format!("`{}` in a string: move the statement to the dialect of its database", statement.trim());
            violations.push(Violation::new(source, line, "sql-text", advice));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: &str = "crates/postroom-core/src/store/sql.rs";

    #[test]
    fn sql_is_refused_elsewhere_in_the_library() {
        let text = "fn a() {\n    run(r#\"\n  DELETE FROM outbox\n\"#);\n}\n";
        assert_eq!(sql_elsewhere(&Source::new(STORE, text))[0].line, 3);
        for statement in STATEMENTS {
            assert_eq!(sql_elsewhere(&Source::new(STORE, &format!("run(\"{statement}x\");"))).len(), 1, "{statement}");
        }
    }

    #[test]
    fn sql_is_allowed_in_its_home_and_in_other_crates() {
        for path in [
            "crates/postroom-core/src/sql.rs",
            "crates/postroom-core/src/db/sqlite/dialect.rs",
            "crates/postroom-server/src/a.rs",
        ] {
            assert!(sql_elsewhere(&Source::new(path, "run(\"SELECT 1\");")).is_empty(), "{path}");
        }
    }

    #[test]
    fn documentation_and_tests_may_show_sql() {
        let text =
            "/// run(\"SELECT 1\")\nfn a() {}\n#[cfg(test)]\nmod tests {\n    const A: &str = \"SELECT 1\";\n}\n";
        assert!(sql_elsewhere(&Source::new(STORE, text)).is_empty());
    }
}
