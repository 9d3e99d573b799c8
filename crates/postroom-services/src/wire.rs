//! The wire format between services: envelopes, and the signatures on them. Nothing here does I/O.

pub mod algorithm;
pub mod envelope;
pub(crate) mod grammar;
pub mod headers;
pub(crate) mod key;
pub(crate) mod secret;
pub mod signature;
#[cfg(test)]
mod tests;

pub use algorithm::HmacAlgorithm;
pub use envelope::Answer;
pub use key::{Key, Keys};
pub use secret::Secret;
