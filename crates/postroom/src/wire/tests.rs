//! The signatures: published vectors, an independent implementation, and what must not pass.
