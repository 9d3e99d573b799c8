//! Marks on SQLite.

use std::sync::Arc;
use std::time::Duration;

use crate::db::sqlite::SqliteStore;
use crate::db::sqlite::blocking::now;
use crate::store::{BoxFuture, HandledMark, HandledMarks, Marked};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

impl HandledMarks for SqliteStore {
    fn put_mark(&self, mark: HandledMark, topic: String) -> BoxFuture<'_, Result<Option<Timestamp>>> {
        self.verb(move |verbs, conn, time| now(verbs.put_mark(conn, &mark, &topic, time)))
    }

    fn find_mark(&self, mark: HandledMark) -> BoxFuture<'_, Result<Option<Marked>>> {
        self.ask(move |verbs, conn, _| now(verbs.find_mark(conn, &mark)))
    }

    fn remove_mark(&self, mark: HandledMark, marked_at: Timestamp) -> BoxFuture<'_, Result<bool>> {
        self.verb(move |verbs, conn, _| now(verbs.remove_mark(conn, &mark, marked_at)))
    }

    fn purge_marks(&self, handler: Arc<str>, retention: Duration, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.verb(move |verbs, conn, time| now(verbs.purge_marks(conn, &handler, time.minus(retention), limit)))
    }
}
