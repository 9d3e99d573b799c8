//! Throw-away database servers for tests, benchmarks and crash tests.
//!
//! A [`Server`] lives in a folder of its own under the system's temporary folder, is reached through a Unix socket, and
//! is gone when it is dropped or when its process ends, however that ends.

mod account;
mod engine;
mod folder;
mod handshake;
mod install;
mod keeper;
mod mariadb;
mod postgres;
mod program;
mod server;
mod tls;

pub use engine::{Engine, Mode};
pub use server::{Options, Server};
