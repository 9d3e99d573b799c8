//! Temporary database servers and message brokers for tests, benchmarks and crash tests.
//!
//! A [`Server`] lives in its own folder under the system's temporary folder and is reached through a Unix socket. It
//! is gone when it is dropped or when its process ends, however that ends. With the `proxy` feature, a proxy in front
//! of it can break its connections. A [`Broker`] is the same with a port of 127.0.0.1; a [`Browser`] is only located.
//!
//! With the `fault` feature, a `FaultProxy` between two services loses, duplicates, delays or breaks the requests of
//! one to the other.

mod account;
mod broker;
mod browser;
mod engine;
#[cfg(feature = "fault")]
mod fault;
mod folder;
mod handshake;
mod install;
mod keeper;
mod mariadb;
mod nats;
mod old;
mod pooler;
mod port;
mod postgres;
mod program;
#[cfg(feature = "proxy")]
mod proxy;
mod rabbitmq;
mod server;
mod tls;

pub use broker::{Broker, BrokerKind};
pub use browser::Browser;
pub use engine::{Engine, Mode};
#[cfg(feature = "fault")]
pub use fault::{Counts, Fault, FaultProxy, Target};
pub use install::install_package;
pub use old::{Age, Old, OldKind};
pub use pooler::Pooler;
#[cfg(feature = "proxy")]
pub use proxy::Proxy;
pub use server::{Options, Server};
pub use tls::Certificate;
