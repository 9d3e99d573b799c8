//! What travels between services: envelopes, and the signatures on them. No I/O.

mod secret;

pub use secret::Secret;
