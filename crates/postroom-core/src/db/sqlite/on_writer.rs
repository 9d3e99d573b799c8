//! The operations on the writer's own connection, in whatever transaction it is in.

use std::time::Duration;

use rusqlite::Connection;

use crate::db::sqlite::blocking::now;
use crate::db::sqlite::driver_rusqlite::SqliteConn;
use crate::db::sqlite::schema::schema_version;
use crate::db::sqlite::store::SqliteShared;
use crate::db::sqlite::thread::OnFile;
use crate::message::{InboxKey, Incoming, NewMessage};
use crate::queue::Queue;
use crate::store::unique;
use crate::store::{Admission, Arrival, PutMode, Stored};
use crate::support::error::{Error, ErrorKind, Result};
use crate::telemetry;

impl SqliteShared {
    /// Enqueues a message and reports it to telemetry.
    pub(crate) fn enqueue_on(&self, conn: &Connection, message: &NewMessage) -> Result<Stored> {
        message.check()?;
        let stored = self.insert_on(conn, &telemetry::traced(message))?;
        telemetry::Enqueued::of(std::slice::from_ref(message)).tell(&self.name, &[stored]);
        Ok(stored)
    }

    pub(crate) fn insert_on(&self, conn: &Connection, message: &NewMessage) -> Result<Stored> {
        unique::store_blocking(conn, message, &self.verbs.insert(message, self.clock.now())?)
    }

    /// Whether the inbox already has a message.
    pub(crate) fn knows(&self, conn: &Connection, key: &InboxKey) -> Result<bool> {
        let find = self.verbs.find_by_key(key);
        let mut find_statement = conn.prepare_cached(find.sql())?;
        Ok(find_statement.exists(rusqlite::params_from_iter(find.values()))?)
    }

    pub(crate) fn arrive_on(&self, conn: &Connection, incoming: &Incoming, hold: Duration) -> Result<Admission> {
        now(self.verbs.arrive(&mut SqliteConn::new(conn), incoming, hold, self.clock.now()))
    }

    /// Accepts a message and reports it to telemetry.
    pub(crate) fn accept_on(&self, conn: &Connection, incoming: &Incoming) -> Result<Arrival> {
        incoming.check_from_outside()?;
        let mut session = SqliteConn::new(conn);
        let arrival = now(self.verbs.put(&mut session, incoming, PutMode::FirstWins, self.clock.now()))?;
        let queue = telemetry::Named { store: &self.name, kind: Queue::Inbox };
        telemetry::arrived(queue, incoming.key(), &incoming.topic, arrival);
        Ok(arrival)
    }
}

impl SqliteShared {
    /// Remembers an outage, if the error is one.
    pub(crate) fn note(&self, error: &Error) {
        if error.kind() == ErrorKind::Unavailable {
            self.outage.note(self.clock.now());
        }
    }
}

impl OnFile for SqliteShared {
    fn note_outage(&self) {
        self.outage.note(self.clock.now());
    }

    fn rolled_back(&self) {
        self.verbs.forget_claims();
    }

    fn check_schema(&self, conn: &Connection) -> Result<()> {
        self.verbs.check_schema(schema_version(conn, &self.verbs)?)
    }

    /// Closes the readers. Those in use are closed when their query is answered.
    fn leave_readers(&self) {
        self.readers.leave();
        self.verbs.forget_claims();
        if let Some(watched) = &self.watched {
            watched.let_go();
        }
    }
}
