//! Messages between services: what travels, how it is signed, who receives it, and how it gets there.
//!
//! Programs use the crate [`postroom`](https://docs.rs/postroom), which re-exports the public API. The modules here
//! are the building blocks of that crate and change without notice.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(all(feature = "grpc", feature = "pipe")),
    allow(dead_code, unused_imports, reason = "what wires share has a user only with all of them")
)]

// The modules are listed from the lowest layer to the highest; `cargo xtask tidy` checks the order of all modules.
#[doc(hidden)]
pub mod wire;

#[doc(hidden)]
pub mod foreign;
#[doc(hidden)]
pub mod receiver;
pub mod transport;

mod client;
mod service;

pub use client::{Accepts, Client, Target};
pub use foreign::{CloudEventsMode, WebhookScheme, WebhookSecret, WebhookSigner};
pub use receiver::{Hook, Receiver, ReceiverOptions, Source};
pub use service::{Declared, RunningService, ServiceBuilder};
#[cfg(feature = "grpc")]
pub use transport::GrpcService;
pub use transport::{
    Address, Courier, Destination, Neighbours, Peer, Service, Services, ServicesConfig, TransportType,
};
#[cfg(feature = "http")]
pub use transport::{ClientTls, Egress, HttpService, ListenOptions, Listener, PushUrl, TlsIdentity};
pub use wire::{HmacAlgorithm, Key, Keys, Secret};
