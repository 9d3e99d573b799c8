//! The real binary, run as people run it.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admin;
mod authority;
mod backups;
mod bench;
mod config;
mod corrupt;
mod demo;
mod desk;
mod doctor;
mod errors;
mod exec;
mod explain;
#[cfg(target_os = "linux")]
mod flood;
mod hook;
mod lanes;
mod manual;
mod metrics;
mod migrate;
mod node;
mod operator;
mod pull;
mod push;
mod recover;
mod renew;
mod schema;
mod send;
mod tls;
mod up;
mod watch;
mod web;
mod wires;
