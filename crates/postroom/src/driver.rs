//! One foreign database crate per file: how it binds, how it reads, how its errors are told apart.

#[cfg(feature = "rusqlite-0_39")]
pub(crate) mod rusqlite_039;
