//! What the macros write refers to this: not for programs.

use std::env::VarError;
use std::marker::PhantomData;

pub use serde;
use serde::Serialize;

use postroom_core::message::{Payload, Replies};
use postroom_core::support::error::{Error, Result};
use postroom_core::work::handler::{Backend, HandlerFn, Handlers};
#[cfg(feature = "rusqlite-0_39")]
use postroom_core::{BlockingCtx, HandlerResult, Sqlite};

/// Whether two topics are the same, before the program runs.
pub const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Text from an environment variable, or what stands for it.
pub fn env(variable: &str, otherwise: Option<&str>) -> Result<String> {
    match (std::env::var(variable), otherwise) {
        (Ok(text), _) => Ok(text),
        (Err(VarError::NotPresent), Some(otherwise)) => Ok(otherwise.to_owned()),
        (Err(VarError::NotPresent), None) => {
            Err(Error::invalid(format!("the environment variable {variable} is not set")))
        }
        (Err(VarError::NotUnicode(_)), _) => {
            Err(Error::invalid(format!("the environment variable {variable} is not UTF-8")))
        }
    }
}

/// A message that nobody sends.
#[derive(Debug, Serialize, serde::Deserialize)]
pub enum Nothing {}

impl Payload for Nothing {
    const TOPIC: &'static str = "nothing";
}

/// Where a handler is registered. What has an answer is found first ([`Answered`]): its handler must give that one.
#[derive(Debug)]
pub struct Topic<P>(PhantomData<fn(P)>);

/// Of this payload.
pub const fn topic<P: Payload>() -> Topic<P> {
    Topic(PhantomData)
}

/// A payload whose answer is declared.
pub trait Answered<P: Replies> {
    /// Registers an async handler.
    fn on<B: Backend>(
        &self,
        handlers: Handlers<B>,
        handler: impl for<'c> HandlerFn<'c, B, P, P::Reply> + 'static,
    ) -> Handlers<B> {
        handlers.on(handler)
    }

    /// Registers a handler on the writer thread.
    #[cfg(feature = "rusqlite-0_39")]
    fn on_blocking(
        &self,
        handlers: Handlers<Sqlite>,
        handler: impl Fn(&mut BlockingCtx<'_>, P) -> HandlerResult<P::Reply> + Send + Sync + 'static,
    ) -> Handlers<Sqlite> {
        handlers.on_blocking(handler)
    }
}

impl<P: Replies> Answered<P> for Topic<P> {}

/// A payload whose answer, if there is one, nobody waits for.
pub trait Unanswered<P: Payload> {
    /// Registers an async handler.
    fn on<B: Backend, R: Serialize + Send + 'static>(
        &self,
        handlers: Handlers<B>,
        handler: impl for<'c> HandlerFn<'c, B, P, R> + 'static,
    ) -> Handlers<B> {
        handlers.on(handler)
    }

    /// Registers a handler on the writer thread.
    #[cfg(feature = "rusqlite-0_39")]
    fn on_blocking<R: Serialize>(
        &self,
        handlers: Handlers<Sqlite>,
        handler: impl Fn(&mut BlockingCtx<'_>, P) -> HandlerResult<R> + Send + Sync + 'static,
    ) -> Handlers<Sqlite> {
        handlers.on_blocking(handler)
    }
}

impl<P: Payload> Unanswered<P> for &Topic<P> {}
