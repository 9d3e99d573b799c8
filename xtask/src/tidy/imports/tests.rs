//! The import rules bite, and let pass what they should.

use super::*;

const NONE: [usize; 0] = [];

fn refused(path: &str, text: &str) -> Vec<usize> {
    let source = Source::new(&format!("{LIBRARY}{path}"), text);
    forbidden_imports(&source).iter().map(|violation| violation.line).collect()
}

#[test]
fn pure_modules_import_only_each_other() {
    for module in ["queue.rs", "retry.rs", "clock.rs", "queue/lease.rs"] {
        assert_eq!(refused(module, "use crate::store::Store;\n"), [1], "{module}");
        assert_eq!(refused(module, "use crate::{error::Error, message::Message, queue, retry, clock::Clock};\n"), NONE);
        assert_eq!(refused(module, "use std::time::Duration;\n"), NONE);
    }
}

#[test]
fn names_at_the_root_hide_their_module() {
    assert_eq!(refused("queue.rs", "use crate::Outbox;\n"), [1]);
    assert_eq!(refused("queue.rs", "use crate::*;\n"), [1]);
}

#[test]
fn the_worker_knows_no_sql_and_no_driver() {
    assert_eq!(refused("worker.rs", "use crate::{\n    queue::{Lease, sql},\n    sql::Statement,\n};\n"), [3]);
    assert_eq!(refused("worker/settle.rs", "fn a() {\n    crate::driver::sqlite::open();\n}\n"), [2]);
    assert_eq!(refused("worker.rs", "use crate::{store::Store, queue::Lease, retry, clock};\n"), NONE);
}

#[test]
fn drivers_know_nothing_above_them() {
    for above in ["worker", "handler", "dispatcher"] {
        assert_eq!(refused("driver/rusqlite.rs", &format!("use crate::{above}::A;\n")), [1], "{above}");
    }
    assert_eq!(refused("driver/rusqlite.rs", "use crate::sql::Statement;\n"), NONE);
}

#[test]
fn sql_knows_neither_store_nor_driver_nor_worker() {
    for above in ["store", "driver", "worker"] {
        assert_eq!(refused("sql/sqlite.rs", &format!("use crate::{above}::A;\n")), [1], "{above}");
        assert_eq!(refused("sql.rs", &format!("use crate::{above}::A;\n")), [1], "{above}");
    }
    assert_eq!(refused("sql.rs", "use crate::queue::State;\n"), NONE);
}

#[test]
fn climbing_to_the_root_is_the_same_path() {
    assert_eq!(refused("worker.rs", "use super::sql::Statement;\n"), [1]);
    assert_eq!(refused("worker/settle.rs", "use super::super::sql::Statement;\n"), [1]);
    assert_eq!(refused("worker/settle.rs", "use super::sql::Statement;\n"), NONE);
}

#[test]
fn comments_strings_tests_and_other_crates_are_free() {
    assert_eq!(refused("worker.rs", "//! See [`crate::sql`].\nconst A: &str = \"crate::sql\";\n"), NONE);
    assert_eq!(refused("worker.rs", "#[cfg(test)]\nmod tests {\n    use crate::sql::Statement;\n}\n"), NONE);
    assert_eq!(refused("worker.rs", "use other_crate::sql;\nuse metrics::crate_::sql;\n"), NONE);
    assert_eq!(refused("outbox.rs", "use crate::sql::Statement;\n"), NONE);
}
