//! gRPC, both ends.

#[rustfmt::skip]
#[allow(unreachable_pub, reason = "written by `cargo xtask proto`, for a module that everybody sees")]
mod generated;
