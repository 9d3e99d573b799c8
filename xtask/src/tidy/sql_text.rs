//! SQL stands under `sql`, where the dialects can be compared.

use super::{
    Violation,
    source::{Source, numbered},
};

const LIBRARY: &str = "crates/postroom/src/";
const HOMES: &[&str] = &["crates/postroom/src/sql.rs", "crates/postroom/src/sql/"];
const STATEMENTS: &[&str] = &["SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM", "CREATE TABLE"];

pub(super) fn sql_elsewhere(source: &Source) -> Vec<Violation> {
    let Some(rust) = &source.rust else { return Vec::new() };
    if !source.path.starts_with(LIBRARY) || HOMES.iter().any(|home| source.path.starts_with(home)) {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (line, text) in numbered(&rust.layers.strings) {
        let statement = STATEMENTS.iter().find(|statement| text.contains(*statement));
        if let Some(statement) = statement.filter(|_| !rust.is_test(line)) {
            let advice = format!("`{}` in a string: move the statement under src/sql/", statement.trim());
            violations.push(Violation::new(source, line, "sql-text", advice));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: &str = "crates/postroom/src/store/sql.rs";

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
        for path in
            ["crates/postroom/src/sql.rs", "crates/postroom/src/sql/sqlite.rs", "crates/postroom-server/src/a.rs"]
        {
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
