//! Places where a test may let the program crash.

#[cfg(feature = "testing")]
pub(crate) mod point;

/// Names a place at which a test can break the program off, to see that nothing is lost and nothing is done twice.
///
/// Without the feature `testing` it does nothing and costs nothing. With it, [`testing::CrashPoint`] breaks off who
/// gets here, and `POSTROOM_CRASH_AT=name` in the environment aborts the whole process, as a kill would.
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
