//! The wires: each takes a parcel to one destination and brings back the answer.

use std::sync::Arc;

use crate::transport::address::Location;
use crate::transport::in_process::{InProcess, Neighbours};
use crate::transport::judge::Answered;
use crate::transport::parcel::Parcel;
use crate::transport::services::Service;
use postroom_core::store::BoxFuture;
use postroom_core::support::error::{Error, Result};

/// The connection to one destination.
pub(crate) trait Wire: Send + Sync + 'static {
    /// Takes a parcel there and brings back the answer.
    fn exchange<'a>(&'a self, parcel: &'a Parcel<'a>) -> BoxFuture<'a, std::result::Result<Answered, WireError>>;

    /// Returns whether messages on this wire are signed.
    fn is_signed(&self) -> bool {
        true
    }
}

/// The reason why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum WireError {
    /// The message did not arrive, or nobody knows whether it did.
    Broken(String),
    /// This message can never be sent over this wire.
    Unsendable(String),
    /// No receiver for it is in this process.
    NoOne,
}

impl From<Error> for WireError {
    fn from(error: Error) -> Self {
        Self::Unsendable(error.to_string())
    }
}

/// Opens the wire to a service. It does not connect yet.
pub(crate) fn open(service: &Service, neighbours: &Neighbours) -> Result<Arc<dyn Wire>> {
    let address = service.address()?;
    match address.0 {
        Location::InProcess => Ok(Arc::new(InProcess(neighbours.clone()))),
        #[cfg(feature = "http")]
        Location::Http { .. } | Location::Unix { .. } => {
            Ok(Arc::new(crate::transport::http::HttpWire::open(service, &address)?))
        }
        #[cfg(feature = "pipe")]
        Location::Pipe { .. } => Ok(Arc::new(crate::transport::http::HttpWire::open(service, &address)?)),
        #[cfg(feature = "grpc")]
        Location::Grpc { .. } => Ok(Arc::new(crate::transport::grpc::GrpcWire::open(service, &address)?)),
        #[allow(unreachable_patterns, reason = "with all features nothing is left over")]
        _ => Err(Error::invalid(format!(
            "the address {address} of {} needs a feature of this crate that is off: http, grpc or pipe",
            service.name
        ))),
    }
}
