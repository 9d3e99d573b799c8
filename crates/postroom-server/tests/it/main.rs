//! The real binary, run as people run it.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod config;
mod demo;
mod desk;
mod doctor;
mod errors;
mod exec;
mod hook;
mod node;
mod operator;
mod push;
mod schema;
mod send;
mod up;
