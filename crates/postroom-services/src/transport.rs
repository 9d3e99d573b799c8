//! How messages leave for other services: the courier, its service map, and both ends of each wire.

mod address;
mod config;
mod courier;
#[cfg(feature = "grpc")]
pub(crate) mod grpc;
#[cfg(feature = "http")]
mod http;
mod in_process;
mod judge;
mod parcel;
mod services;
mod usual;
mod wires;

pub use address::Address;
pub use config::ServicesConfig;
pub use courier::{Courier, Destination};
#[cfg(feature = "grpc")]
pub use grpc::GrpcService;
#[cfg(feature = "http")]
pub use http::{ClientTls, Egress, HttpService, ListenOptions, Listener, PushUrl, TlsIdentity};
pub use in_process::Neighbours;
pub use judge::Peer;
pub use services::{Service, Services};
pub use usual::TransportType;
