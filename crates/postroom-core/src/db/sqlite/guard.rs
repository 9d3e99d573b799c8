//! Keeps the user's code from ending the transaction it runs in, because the transaction contains the work of others
//! too.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{CachedStatement, Connection};

use crate::db::sqlite::job::lost;
use crate::support::error::{Error, ErrorKind, Result, panic_message};

const SAVEPOINT: &str = "postroom_job";
const BEGIN: &str = "SAVEPOINT postroom_job";
const KEEP: &str = "RELEASE postroom_job";
const UNDO: &str = "ROLLBACK TO postroom_job";

/// Pragmas that take a name and change nothing.
const ASKING: &[&str] =
    &["table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list"];

/// Guards one connection.
#[derive(Clone, Debug)]
pub(crate) struct Guard(Arc<AtomicBool>);

/// The whole transaction was lost, with the work of every job in it; holds the reason.
#[derive(Debug)]
pub(crate) struct TransactionLost(pub(crate) Error);

impl TransactionLost {
    /// Decides the reason. A full or failing disk makes SQLite roll everything back; after any other error, the code
    /// itself ended the transaction.
    fn after(failure: Option<Error>) -> Self {
        Self(failure.filter(|error| error.kind() == ErrorKind::Unavailable).unwrap_or_else(lost))
    }
}

impl Guard {
    pub(crate) fn set_up(conn: &Connection) -> Result<Self> {
        let guard = Self(Arc::new(AtomicBool::new(false)));
        let watched = guard.clone();
        conn.authorizer(Some(move |context: AuthContext<'_>| match context.action {
            action if watched.in_user_code() && is_forbidden(&action) => Authorization::Deny,
            _ => Authorization::Allow,
        }))?;
        // A handler that ignored RAISE(ROLLBACK) would go on in autocommit mode. Nothing may commit there either.
        let watched = guard.clone();
        conn.commit_hook(Some(move || watched.in_user_code()))?;
        Ok(guard)
    }

    fn enter(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Called when the user's code has ended, whatever its result.
    pub(crate) fn leave(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn in_user_code(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Prepares savepoints on this connection, once for many of them.
    pub(crate) fn savepoints<'c>(&self, conn: &'c Connection) -> Result<Savepoints<'c>> {
        Ok(Savepoints {
            conn,
            guard: self.clone(),
            begin: conn.prepare_cached(BEGIN)?,
            keep: conn.prepare_cached(KEEP)?,
        })
    }
}

/// Savepoints on one connection, one after the other.
pub(crate) struct Savepoints<'c> {
    conn: &'c Connection,
    guard: Guard,
    begin: CachedStatement<'c>,
    keep: CachedStatement<'c>,
}

/// A savepoint that begins when the user's code first asks for the connection.
pub(crate) struct OnDemand<'s, 'c>(RefCell<(&'s mut Savepoints<'c>, Option<rusqlite::Result<()>>)>);

impl OnDemand<'_, '_> {
    /// Begins the savepoint, if it has not begun. If that fails, everything is rolled back when the code has ended.
    pub(crate) fn begin(&self) {
        let (savepoints, begun) = &mut *self.0.borrow_mut();
        if begun.is_none() {
            savepoints.guard.leave();
            *begun = Some(savepoints.begin.execute([]).map(|_| ()));
            savepoints.guard.enter();
        }
    }
}

impl<'c> Savepoints<'c> {
    /// Runs the user's code in its own savepoint, then `seal` if it succeeded. The effects of both stay, or of neither.
    pub(crate) fn run<T>(
        &mut self,
        code: impl FnOnce() -> Result<T>,
        seal: impl FnOnce(&T) -> Result<()>,
    ) -> std::result::Result<Result<T>, TransactionLost> {
        if let Err(error) = self.begin.execute([]) {
            return Ok(Err(error.into()));
        }
        self.guard.enter();
        let result = code();
        self.guard.leave();
        if self.conn.is_autocommit() {
            return Err(TransactionLost::after(result.err()));
        }
        self.end(result.and_then(|value| seal(&value).map(|()| value)))
    }

    /// Runs code that begins the savepoint before it uses the connection.
    pub(crate) fn run_on_demand<T>(
        &mut self,
        code: impl FnOnce(&OnDemand<'_, 'c>) -> Result<T>,
    ) -> std::result::Result<Result<T>, TransactionLost> {
        self.guard.enter();
        let savepoint = OnDemand(RefCell::new((self, None)));
        let result = code(&savepoint);
        let (this, begun) = savepoint.0.into_inner();
        this.guard.leave();
        match begun {
            _ if this.conn.is_autocommit() => Err(TransactionLost::after(result.err())),
            None => Ok(result),
            Some(Ok(())) => this.end(result),
            Some(Err(error)) => Err(TransactionLost(error.into())),
        }
    }

    fn end<T>(&mut self, result: Result<T>) -> std::result::Result<Result<T>, TransactionLost> {
        let ended = match &result {
            Ok(_) => self.keep.execute([]),
            Err(_) => self.conn.execute(UNDO, []).and_then(|_| self.keep.execute([])),
        };
        match ended {
            Ok(_) => Ok(result),
            Err(error) => Err(TransactionLost(error.into())),
        }
    }
}

fn is_forbidden(action: &AuthAction<'_>) -> bool {
    match action {
        AuthAction::Transaction { .. } | AuthAction::Attach { .. } | AuthAction::Detach { .. } => true,
        AuthAction::Pragma { pragma_name, pragma_value } => pragma_value.is_some() && !ASKING.contains(pragma_name),
        AuthAction::Savepoint { savepoint_name, .. } => savepoint_name.eq_ignore_ascii_case(SAVEPOINT),
        _ => false,
    }
}

/// Runs code that may panic. After a panic its transaction is rolled back and the thread goes on.
pub(crate) fn catch<T>(code: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(code)).unwrap_or_else(|panic| {
        let message = panic_message(panic.as_ref());
        Err(Error::new(ErrorKind::Callback, format!("panicked: {message}")))
    })
}
