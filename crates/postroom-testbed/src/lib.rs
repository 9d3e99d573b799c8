//! Throw-away database servers for tests, benchmarks and crash tests.
//!
//! A [`Server`] lives in a folder of its own under the system's temporary folder, is reached through a Unix socket, and
//! is gone when it is dropped or when its process ends, however that ends. With the `proxy` feature a proxy can stand
//! before it and break its connections.
//!
//! With the `fault` feature, a `FaultProxy` stands between two services and loses, doubles, delays or breaks the
//! requests of one to the other.

mod account;
mod engine;
#[cfg(feature = "fault")]
mod fault;
mod folder;
mod handshake;
mod install;
mod keeper;
mod mariadb;
mod pooler;
mod postgres;
mod program;
#[cfg(feature = "proxy")]
mod proxy;
mod server;
mod tls;

pub use engine::{Engine, Mode};
#[cfg(feature = "fault")]
pub use fault::{Counts, Fault, FaultProxy, Target};
pub use install::install_package;
pub use pooler::Pooler;
#[cfg(feature = "proxy")]
pub use proxy::Proxy;
pub use server::{Options, Server};
pub use tls::Certificate;
