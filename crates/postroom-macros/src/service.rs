//! `service!`: declares what a service receives and where it sends.

mod block;
mod checks;
mod grammar;
mod value;
mod written;

pub(crate) use grammar::Declared;
pub(crate) use written::expand;
