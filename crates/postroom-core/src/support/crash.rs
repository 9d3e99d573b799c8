//! Points where a test can make the program crash.

#[cfg(feature = "testing")]
pub(crate) mod point;

/// Names a point where a test can interrupt the program, to check that nothing is lost and nothing is done twice.
///
/// Without the feature `testing` it does nothing and costs nothing. With it, [`testing::CrashPoint`] interrupts the
/// code that gets here, and `POSTROOM_CRASH_AT=name` in the environment aborts the whole process, as a kill would.
///
/// ```
/// # fn charge() {}
/// # fn note_the_charge() {}
/// charge();
/// postroom::crash_here("between charge and note");
/// note_the_charge();
/// ```
///
/// [`testing::CrashPoint`]: https://docs.rs/postroom/latest/postroom/testing/struct.CrashPoint.html
#[inline]
pub fn crash_here(name: &str) {
    #[cfg(feature = "testing")]
    point::reached(name);
    #[cfg(not(feature = "testing"))]
    let _ = name;
}
