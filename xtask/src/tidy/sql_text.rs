//! Rule: SQL is in the dialects of the databases, in files of the same names, so that it can be compared.

use super::{
    Violation,
    source::{Source, numbered},
};

/// The crates that speak SQL only there.
const CRATES: &[&str] = &[
    "crates/postroom-core/src/",
    "crates/postroom-services/src/",
    "crates/postroom-idempotent/src/",
    "crates/postroom-server/src/",
];
/// What all dialects share, and the demonstration, which has tables of its own.
const HOMES: &[&str] = &[
    "crates/postroom-core/src/sql.rs",
    "crates/postroom-core/src/sql/",
    "crates/postroom-server/src/demo.rs",
    "crates/postroom-server/src/demo/",
];
const DATABASES: &str = "crates/postroom-core/src/db/";
/// The files in a database's folder that may contain its own statements.
const DIALECTS: &[&str] = &["/dialect.rs", "/dialect/", "/doctor/questions.rs"];
const STATEMENTS: &[&str] = &[
    "SELECT ",
    "INSERT INTO",
    "UPDATE ",
    "DELETE FROM",
    "CREATE TABLE",
    "DROP TABLE",
    "DROP SCHEMA",
    "FROM {",
    " WHERE ",
    "ORDER BY ",
];

pub(super) fn sql_elsewhere(source: &Source) -> Vec<Violation> {
    let Some(rust) = &source.rust else { return Vec::new() };
    let path = source.path.as_str();
    let is_at_home = HOMES.iter().any(|home| path.starts_with(home))
        || path.starts_with(DATABASES) && DIALECTS.iter().any(|home| path.contains(home));
    if is_at_home || !CRATES.iter().any(|own| path.starts_with(own)) {
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
    const SERVER: &str = "crates/postroom-server/src/cli/top.rs";

    #[test]
    fn sql_is_refused_elsewhere_in_the_library_and_in_the_server() {
        let text = "fn a() {\n    run(r#\"\n  DELETE FROM outbox\n\"#);\n}\n";
        for path in [STORE, SERVER] {
            assert_eq!(sql_elsewhere(&Source::new(path, text))[0].line, 3);
            for statement in STATEMENTS {
                let found = sql_elsewhere(&Source::new(path, &format!("run(\"{statement}x\");")));
                assert_eq!(found.len(), 1, "{path}: {statement}");
            }
        }
    }

    #[test]
    fn sql_is_allowed_in_its_home_in_the_demonstration_and_in_other_crates() {
        for path in [
            "crates/postroom-core/src/sql.rs",
            "crates/postroom-core/src/db/sqlite/dialect.rs",
            "crates/postroom-server/src/demo/ledger.rs",
            "crates/postroom-conformance/src/a.rs",
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
