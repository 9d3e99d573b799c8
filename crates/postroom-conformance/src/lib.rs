//! What every Postroom backend must do, and the programs that try to break it.

// What a case is, and what it stands on.
pub mod capture;
pub mod case;
pub mod harness;
pub mod meters;
pub mod on_server;
pub mod script;
pub mod servers;
pub mod side;
pub mod wait;

// The cases, by verb.
pub mod suite;

// The crash test.
pub mod torture;
