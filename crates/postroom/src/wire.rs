//! What travels between services: envelopes, and the signatures on them. No I/O.

pub(crate) mod secret;

pub use secret::Secret;
