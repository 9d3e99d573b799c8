//! Idempotent handling as a layer of a `tower` service.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use tower_layer::Layer;
use tower_service::Service;

use super::{Idempotent, Once, SharedCtx, Unhandled};
use postroom_core::message::{InboxKey, Incoming};
use postroom_core::store::{BoxFuture, Store};
use postroom_core::support::error::{Error, ErrorKind, Result};
use postroom_core::work::handler::Backend;

/// A request that identifies its message.
///
/// ```
/// use postroom::InboxKey;
/// use postroom::idempotent::Identified;
///
/// struct Delivered { partition: u32, offset: u64 }
///
/// impl Identified for Delivered {
///     fn inbox_key(&self) -> postroom::Result<InboxKey> {
///         InboxKey::new("orders-topic", format!("{}/{}", self.partition, self.offset))
///     }
/// }
/// ```
pub trait Identified {
    /// Returns the key that identifies the message: its sender and its id.
    fn inbox_key(&self) -> Result<InboxKey>;

    /// Returns the message's topic, which is stored with its mark. By default it is empty, which means no topic.
    fn topic(&self) -> &str {
        ""
    }
}

impl Identified for Incoming {
    fn inbox_key(&self) -> Result<InboxKey> {
        Ok(self.key().clone())
    }

    fn topic(&self) -> &str {
        &self.topic
    }
}

/// A request to handle now, and its transaction.
///
/// ```
/// use postroom::{Incoming, NewMessage};
/// use postroom::idempotent::Admitted;
/// use postroom::store::Memory;
///
/// async fn reserve(admitted: Admitted<Memory, Incoming>) -> postroom::Result<()> {
///     let mut ctx = admitted.ctx.lock().await?;
///     ctx.enqueue(NewMessage::new("stock.reserved", admitted.request.key().message_id())).await?;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Admitted<B: Backend, Q> {
    /// The request.
    pub request: Q,
    /// Its context. What the service writes there is committed when the service succeeds, and rolled back when it
    /// fails. The message in it has the request's key and topic, but no content.
    pub ctx: SharedCtx<B>,
}

/// Passes each message to a `tower` service only once. It wraps a service of [`Admitted`] requests and answers with
/// [`Once`]. It needs the feature `tower`.
///
/// ```
/// use postroom::{InboxKey, NewMessage};
/// use postroom::idempotent::{Admitted, Idempotent, IdempotentLayer, Identified, Once};
/// use postroom::store::{Memory, MemoryStore};
/// use tower::{Layer, Service, ServiceExt, service_fn};
///
/// struct Delivered { offset: u64 }
///
/// impl Identified for Delivered {
///     fn inbox_key(&self) -> postroom::Result<InboxKey> {
///         InboxKey::new("orders-topic", self.offset.to_string())
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let reserve = service_fn(|Admitted { request, ctx, .. }: Admitted<Memory, Delivered>| async move {
///     ctx.lock().await?.enqueue(NewMessage::new("stock.reserved", request.offset.to_string())).await?;
///     Ok::<_, postroom::Error>(request.offset)
/// });
/// let layer = IdempotentLayer::new(Idempotent::new(MemoryStore::new(), "reserve-stock")?);
/// let mut service = layer.layer(reserve);
/// assert_eq!(service.ready().await?.call(Delivered { offset: 7 }).await?, Once::Ran(7));
/// assert_eq!(service.ready().await?.call(Delivered { offset: 7 }).await?, Once::Duplicate);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// A service can use its request only once, so nothing is retried here: a lost race is [`Unhandled::Store`], and the
/// message must be delivered again.
#[derive(Debug)]
pub struct IdempotentLayer<B: Backend>(Idempotent<B>);

impl<B: Backend> IdempotentLayer<B> {
    /// Creates a layer that marks messages as `idempotent` does.
    pub fn new(idempotent: Idempotent<B>) -> Self {
        Self(idempotent)
    }
}

impl<B: Backend> Clone for IdempotentLayer<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: Backend, S> Layer<S> for IdempotentLayer<B> {
    type Service = IdempotentService<B, S>;

    fn layer(&self, inner: S) -> IdempotentService<B, S> {
        IdempotentService { idempotent: self.0.clone(), inner }
    }
}

/// A service behind an [`IdempotentLayer`].
///
/// ```
/// use postroom::Incoming;
/// use postroom::idempotent::{Admitted, Idempotent, IdempotentLayer, IdempotentService};
/// use postroom::store::{Memory, MemoryStore};
/// use tower::{Layer, Service, service_fn};
///
/// fn once<S: Clone>(store: MemoryStore, inner: S) -> postroom::Result<IdempotentService<Memory, S>> {
///     Ok(IdempotentLayer::new(Idempotent::new(store, "reserve-stock")?).layer(inner))
/// }
/// ```
#[derive(Debug)]
pub struct IdempotentService<B: Backend, S> {
    idempotent: Idempotent<B>,
    inner: S,
}

impl<B: Backend, S: Clone> Clone for IdempotentService<B, S> {
    fn clone(&self) -> Self {
        Self { idempotent: self.idempotent.clone(), inner: self.inner.clone() }
    }
}

impl<B, S, Q> Service<Q> for IdempotentService<B, S>
where
    B: Backend,
    Q: Identified + Send + 'static,
    S: Service<Admitted<B, Q>> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: Send,
    S::Error: Send,
{
    type Response = Once<S::Response>;
    type Error = Unhandled<S::Error>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Unhandled::Handler)
    }

    fn call(&mut self, request: Q) -> Self::Future {
        // The service that is ready handles the request; its clone stays behind to become ready.
        let spare = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, spare);
        let idempotent = self.idempotent.clone();
        Box::pin(async move {
            let incoming = Incoming::new(request.inbox_key()?, request.topic(), "");
            if !incoming.topic.is_empty() {
                incoming.check()?;
            }
            let mut panicked = None;
            let once = idempotent.once(&incoming, idempotent.serve(ready, request, &incoming, &mut panicked)).await;
            match panicked {
                Some(panic) => std::panic::resume_unwind(panic),
                None => once,
            }
        })
    }
}

type Panic = Box<dyn Any + Send>;

impl<B: Backend> Idempotent<B> {
    async fn serve<S, Q>(
        &self,
        mut service: S,
        request: Q,
        incoming: &Incoming,
        panicked: &mut Option<Panic>,
    ) -> Result<Once<S::Response>, Unhandled<S::Error>>
    where
        S: Service<Admitted<B, Q>, Future: Send> + Send,
        Q: Send,
    {
        let message = incoming.to_message(self.core.store.clock().now());
        let Some(ctx) = self.enter(Arc::new(message), incoming.key()).await? else { return Ok(Once::Duplicate) };
        let shared = SharedCtx::new(ctx);
        let admitted = Admitted { request, ctx: shared.clone() };
        let serving = B::scope(&self.core.store, async { service.call(admitted).await });
        let over = shared.over_when_dropped();
        let served = AssertUnwindSafe(serving).catch_unwind().await;
        let ctx = shared.take();
        drop(over);
        match served {
            Ok(Ok(response)) => self.commit(ctx?).await.map(|()| Once::Ran(response)).map_err(Unhandled::Store),
            failed => {
                if let Some(tx) = ctx.ok().and_then(|ctx| ctx.tx) {
                    B::roll_back(tx).await;
                }
                failed.map_or_else(
                    |panic| {
                        *panicked = Some(panic);
                        Err(Unhandled::Store(Error::new(ErrorKind::Callback, "the service panicked")))
                    },
                    |failed| failed.map(Once::Ran).map_err(Unhandled::Handler),
                )
            }
        }
    }
}
