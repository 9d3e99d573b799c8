//! Time, as the crash test measures and spends it. Elsewhere a test waits for an event; here time itself is under test.

use std::time::{Duration, Instant};

/// The monotonic clock.
#[allow(clippy::disallowed_methods, reason = "how long recovery takes is what is measured")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Lets time pass.
pub(crate) fn wait(span: Duration) {
    // tidy: time itself, leases have to run out while a process is paused
    std::thread::sleep(span);
}

/// Lets time pass for one task.
pub(crate) async fn pause(span: Duration) {
    let _ = tokio::time::timeout(span, std::future::pending::<()>()).await;
}
