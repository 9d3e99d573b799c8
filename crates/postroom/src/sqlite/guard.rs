//! While the user's code runs inside our transaction it must not end it: others' work is in there too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use crate::error::{Error, ErrorKind, Result};

const SAVEPOINT: &str = "postroom_job";

/// The watch over one connection.
#[derive(Clone, Debug)]
pub(crate) struct Guard(Arc<AtomicBool>);

/// The whole transaction is gone, with everybody's work in it.
#[derive(Debug)]
pub(crate) struct TransactionLost;

impl Guard {
    pub(crate) fn set_up(conn: &Connection) -> Result<Self> {
        let guard = Self(Arc::new(AtomicBool::new(false)));
        let watched = guard.clone();
        conn.authorizer(Some(move |context: AuthContext<'_>| match context.action {
            action if watched.in_user_code() && is_forbidden(&action) => Authorization::Deny,
            _ => Authorization::Allow,
        }))?;
        // A handler that swallowed RAISE(ROLLBACK) would go on in autocommit mode: nothing may commit there either.
        let watched = guard.clone();
        conn.commit_hook(Some(move || watched.in_user_code()))?;
        Ok(guard)
    }

    fn in_user_code(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs the user's code in a savepoint of its own, then `seal` when it succeeded: both stay, or neither.
    pub(crate) fn savepoint<T>(
        &self,
        conn: &Connection,
        code: impl FnOnce() -> Result<T>,
        seal: impl FnOnce(&T) -> Result<()>,
    ) -> std::result::Result<Result<T>, TransactionLost> {
        if let Err(error) = control(conn, "SAVEPOINT") {
            return Ok(Err(error));
        }
        self.0.store(true, Ordering::Relaxed);
        let result = code();
        self.0.store(false, Ordering::Relaxed);
        if conn.is_autocommit() {
            return Err(TransactionLost);
        }
        let result = result.and_then(|value| seal(&value).map(|()| value));
        let ended = match &result {
            Ok(_) => control(conn, "RELEASE"),
            Err(_) => control(conn, "ROLLBACK TO").and_then(|()| control(conn, "RELEASE")),
        };
        match ended {
            Ok(()) => Ok(result),
            Err(_) => Err(TransactionLost),
        }
    }
}

fn control(conn: &Connection, verb: &str) -> Result<()> {
    conn.prepare_cached(&format!("{verb} {SAVEPOINT}"))?.execute([])?;
    Ok(())
}

fn is_forbidden(action: &AuthAction<'_>) -> bool {
    match action {
        AuthAction::Transaction { .. } | AuthAction::Attach { .. } | AuthAction::Detach { .. } => true,
        AuthAction::Pragma { pragma_value, .. } => pragma_value.is_some(),
        AuthAction::Savepoint { savepoint_name, .. } => *savepoint_name == SAVEPOINT,
        _ => false,
    }
}

/// The user's code panicked; its transaction is rolled back and the thread goes on.
pub(crate) fn catch<T>(code: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(code)).unwrap_or_else(|panic| {
        let message = panic_message(panic.as_ref());
        Err(Error::new(ErrorKind::Callback, format!("panicked: {message}")))
    })
}

pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
