//! gRPC, both ends: the same envelope and signatures, on the connections and listeners of HTTP. The file
//! `proto/postroom/v1/receiver.proto` describes the messages.

mod client;
#[rustfmt::skip]
#[allow(unreachable_pub, reason = "written by `cargo xtask proto`, for a module that everybody sees")]
mod generated;
mod message;
mod service;
mod status;
#[cfg(test)]
mod tests;

pub(crate) use client::GrpcWire;
pub use service::GrpcService;

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// The content type that we send; others may send `application/grpc+proto`.
const GRPC: &str = "application/grpc";

/// Returns whether a request is a gRPC call. Browsers speak `application/grpc-web`, which is not gRPC.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let rest = content_type.and_then(|text| text.strip_prefix(GRPC));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', ';']))
}
