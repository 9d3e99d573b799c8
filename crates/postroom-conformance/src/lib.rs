//! What every Postroom backend must do, and the programs that try to break it.

// What a case is, and what it stands on.
#[cfg(feature = "suite")]
pub mod backends;
#[cfg(feature = "suite")]
pub mod by_wire;
#[cfg(feature = "suite")]
pub mod capture;
#[cfg(feature = "suite")]
pub mod case;
#[cfg(feature = "suite")]
pub mod front;
#[cfg(feature = "suite")]
pub mod harness;
#[cfg(feature = "suite")]
pub mod lines;
#[cfg(feature = "suite")]
pub mod meters;
pub mod mssql;
#[cfg(feature = "suite")]
pub mod on_server;
#[cfg(feature = "suite")]
pub mod pair;
#[cfg(feature = "suite")]
pub mod peer;
#[cfg(feature = "suite")]
pub mod script;
pub mod servers;
#[cfg(feature = "suite")]
pub mod services;
#[cfg(feature = "suite")]
pub mod side;
#[cfg(feature = "suite")]
pub mod wait;
#[cfg(feature = "suite")]
pub mod web;

// The cases, by what they promise.
#[cfg(feature = "suite")]
pub mod suite;

// The crash test.
pub mod torture;
