//! Delivers messages from one service to another in the same process. Nothing is serialized or signed, but everything
//! is still stored.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::receiver::{Authenticated, Receiver, Reply, arrived, lane_of};
use crate::transport::judge::Answered;
use crate::transport::parcel::Parcel;
use crate::transport::wires::{Wire, WireError};
use crate::wire::envelope::wire_kind;
use postroom_core::message::{IN_REPLY_TO, Incoming, Message, RESERVED};
use postroom_core::store::BoxFuture;
use postroom_core::work::handler::Backend;

/// The receivers of this process, by the names of their services. Clones share them.
///
/// ```
/// use postroom::services::{Courier, Neighbours, Service, Services};
///
/// let neighbours = Neighbours::default();
/// let services = Services::new("orders").service(Service::new("inventory", "in-process"));
/// let courier = Courier::with_neighbours(services, neighbours.clone())?;
/// // Call neighbours.add(receiver) once the receiver of `inventory` exists.
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Neighbours(Arc<RwLock<ByName>>);

/// Each service with the number of its registration.
type ByName = BTreeMap<String, (usize, Arc<dyn Neighbour>)>;

impl Neighbours {
    /// Adds a receiver. From now on, messages to its service go there directly.
    pub fn add<B: Backend>(&self, receiver: Receiver<B>) {
        let name = receiver.service_name().to_owned();
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name, (receiver.identity(), Arc::new(receiver)));
    }

    /// Removes the receiver of this service.
    pub fn remove(&self, service: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(service);
    }

    /// Removes this receiver. Another receiver of the same service stays.
    pub(crate) fn leave<B: Backend>(&self, receiver: &Receiver<B>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.get(receiver.service_name()).is_some_and(|(identity, _)| *identity == receiver.identity()) {
            known.remove(receiver.service_name());
        }
    }

    fn find(&self, service: &str) -> Option<Arc<dyn Neighbour>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(service).map(|(_, found)| found.clone())
    }
}

impl fmt::Debug for Neighbours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
        f.debug_tuple("Neighbours").field(&names).finish()
    }
}

trait Neighbour: Send + Sync {
    fn receive<'a>(&'a self, from: &'a str, incoming: Incoming) -> BoxFuture<'a, Reply>;
}

impl<B: Backend> Neighbour for Receiver<B> {
    fn receive<'a>(&'a self, from: &'a str, incoming: Incoming) -> BoxFuture<'a, Reply> {
        Box::pin(async move { Receiver::receive(self, &Authenticated::by_other_means(from), incoming).await })
    }
}

pub(crate) struct InProcess(pub(crate) Neighbours);

impl Wire for InProcess {
    fn exchange<'a>(&'a self, parcel: &'a Parcel<'a>) -> BoxFuture<'a, Result<Answered, WireError>> {
        Box::pin(async move {
            let neighbour = self.0.find(parcel.destination).ok_or(WireError::NoOne)?;
            let incoming = incoming(parcel.source, parcel.message)?;
            let reply = neighbour.receive(parcel.source, incoming).await;
            let (retry_after, answer) = (reply.retry_after, Some(reply.to_answer()));
            // Nothing is between the two services that could change the answer.
            Ok(Answered { status: reply.status, has_receipt: true, retry_after, window: None, answer })
        })
    }

    fn is_signed(&self) -> bool {
        false
    }
}

fn incoming(source: &str, message: &Message) -> postroom_core::Result<Incoming> {
    let (kind, topic, payload) = (wire_kind(message.kind), message.topic.clone(), message.payload.clone());
    let mut incoming = arrived(source, message.id(), kind, topic, payload)?;
    incoming.correlation_id.clone_from(&message.correlation_id);
    incoming.lane = message.lane.as_deref().map(|lane| lane_of(source, lane));
    incoming.headers.clone_from(&message.headers);
    incoming.headers.retain(|name, _| !name.starts_with(RESERVED) || name == IN_REPLY_TO);
    incoming.expires_at = message.expires_there();
    incoming.check()?;
    Ok(incoming)
}
