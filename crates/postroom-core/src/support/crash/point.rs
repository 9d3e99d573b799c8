//! Simulated crashes, at points that the program names with [`crash_here`](crate::crash_here).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

type Armed = Mutex<BTreeMap<String, Arc<AtomicU32>>>;

static ARMED: LazyLock<Armed> = LazyLock::new(Armed::default);
/// The point at which the whole process ends.
static ABORT_AT: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("POSTROOM_CRASH_AT").ok());

/// Simulates a crash: the first code that reaches the point of that name is interrupted. A handler's transaction is
/// rolled back, and the message is handled again. The point is disarmed when this is dropped.
///
/// Points are shared by the whole process, so give each test its own.
///
/// ```
/// use postroom::testing::{CrashPoint, Workbench};
/// use postroom::{Ctx, Event, HandlerError, Handlers, Payload};
/// use postroom::store::Memory;
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("order.placed")]
/// struct OrderPlaced;
///
/// async fn placed(_: &mut Ctx<Memory>, _: OrderPlaced) -> Result<(), HandlerError> {
///     postroom::crash_here("in the middle of placed");
///     Ok(())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let crash = CrashPoint::arm("in the middle of placed");
/// let bench = Workbench::memory();
/// bench.outbox().enqueue(OrderPlaced.outgoing()).await?;
/// let drained = bench.drain(Handlers::new().on(placed)).await?;
/// assert!(crash.was_reached() && drained.handled() == 1);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "it is disarmed when it is dropped"]
pub struct CrashPoint {
    name: String,
    reached: Arc<AtomicU32>,
}

impl CrashPoint {
    /// Arms the point of this name.
    ///
    /// # Panics
    ///
    /// Panics when the point is armed already, for instance by another test of the same process.
    pub fn arm(name: impl Into<String>) -> Self {
        let (name, reached) = (name.into(), Arc::<AtomicU32>::default());
        let mut armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!armed.contains_key(&name), "the crash point {name:?} is already armed, perhaps by another test");
        armed.insert(name.clone(), reached.clone());
        Self { name, reached }
    }

    /// Returns whether the point was reached, so that the code there was interrupted.
    pub fn was_reached(&self) -> bool {
        self.reached.load(Ordering::SeqCst) > 0
    }
}

impl Drop for CrashPoint {
    fn drop(&mut self) {
        ARMED.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

/// Called when the program reaches a named point.
pub(crate) fn reached(name: &str) {
    if ABORT_AT.as_deref() == Some(name) {
        std::process::abort();
    }
    let armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
    if armed.is_some_and(|reached| reached.fetch_add(1, Ordering::SeqCst) == 0) {
        // This is not `panic!`, because the panic message would only clutter the test's output.
        std::panic::resume_unwind(Box::new(format!("crash at {name}")));
    }
}
