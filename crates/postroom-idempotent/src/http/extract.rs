//! The transaction as an extractor for axum handlers.

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use http::request::Parts;

use super::problem::IdempotencyProblem;
use crate::SharedCtx;
use postroom_core::work::handler::Backend;

/// Marks a request without a key that the layer let pass.
#[derive(Clone, Debug)]
pub(super) struct Unkeyed;

/// An extractor for the transaction that stores the response. What a handler writes there is stored with the
/// response, or neither is.
///
/// A request without an `Idempotency-Key` is refused with 400; an `Option<IdempotentTx<B>>` is `None` for it.
///
/// ```
/// use axum::response::IntoResponse;
/// use postroom::NewMessage;
/// use postroom::idempotent::IdempotentTx;
/// use postroom::sqlite::Sqlite;
///
/// async fn place(IdempotentTx(shared): IdempotentTx<Sqlite>, body: String) -> Result<String, http::StatusCode> {
///     let stored = async {
///         let mut ctx = shared.lock().await?;
///         ctx.tx().await?.run(move |conn| conn.execute("INSERT INTO orders (what) VALUES (?1)", [body])).await?;
///         ctx.enqueue(NewMessage::new("order.placed", "{}")).await
///     };
///     // A 500 rolls everything back, and the client may try again.
///     let stored = stored.await.map_err(|_: postroom::Error| http::StatusCode::INTERNAL_SERVER_ERROR)?;
///     Ok(stored.id().to_string())
/// }
/// # let _: axum::Router = axum::Router::new().route("/orders", axum::routing::post(place));
/// ```
#[derive(Debug)]
pub struct IdempotentTx<B: Backend>(
    /// The context.
    pub SharedCtx<B>,
);

impl<B: Backend, S: Send + Sync> FromRequestParts<S> for IdempotentTx<B> {
    type Rejection = IdempotencyProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, IdempotencyProblem> {
        match (parts.extensions.get::<SharedCtx<B>>(), parts.extensions.get::<Unkeyed>()) {
            (Some(shared), _) => Ok(Self(shared.clone())),
            (None, Some(Unkeyed)) => Err(IdempotencyProblem::NO_KEY),
            (None, None) => Err(IdempotencyProblem::NO_LAYER),
        }
    }
}

impl<B: Backend, S: Send + Sync> OptionalFromRequestParts<S> for IdempotentTx<B> {
    type Rejection = IdempotencyProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, IdempotencyProblem> {
        match (parts.extensions.get::<SharedCtx<B>>(), parts.extensions.get::<Unkeyed>()) {
            (Some(shared), _) => Ok(Some(Self(shared.clone()))),
            (None, Some(Unkeyed)) => Ok(None),
            // Or the layer uses another database: without its transaction the handler would write elsewhere.
            (None, None) => Err(IdempotencyProblem::NO_LAYER),
        }
    }
}
