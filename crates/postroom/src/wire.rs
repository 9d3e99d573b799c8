//! What travels between services: envelopes, and the signatures on them. No I/O.

pub(crate) mod algorithm;
pub(crate) mod envelope;
pub(crate) mod grammar;
pub(crate) mod headers;
pub(crate) mod key;
pub(crate) mod secret;
pub(crate) mod signature;
#[cfg(test)]
mod tests;

pub use algorithm::HmacAlgorithm;
pub(crate) use envelope::Answer;
pub use key::{Key, Keys};
pub use secret::Secret;
