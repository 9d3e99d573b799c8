//! The sending end: HTTP/2, on the same connections as HTTP.

use http::uri::PathAndQuery;
use http::{Extensions, HeaderMap, Uri};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::generated::{Answer, Envelope};
use super::{GRPC, status};
use crate::transport::address::{Address, Location};
use crate::transport::http::client::{ANSWER_MAX, Connections, answered, connections};
use crate::transport::judge::{Answered, Peer};
use crate::transport::parcel::Parcel;
use crate::transport::services::Service;
use crate::transport::wires::{Wire, WireError};
use crate::wire::headers;
use postroom_core::store::BoxFuture;
use postroom_core::support::error::{Error, Result};

pub(crate) struct GrpcWire {
    client: Grpc<Connections<Body>>,
    /// The method that is called, as signatures name it.
    path: &'static str,
    /// Whether the signature is inside the envelope, for a foreign peer.
    v1: bool,
}

impl GrpcWire {
    pub(crate) fn open(service: &Service, address: &Address) -> Result<Self> {
        let name = &service.name;
        let Location::Grpc { host, path } = address.0.clone() else {
            return Err(Error::invalid(format!("the address {address} of {name} is not a gRPC address")));
        };
        let v1 = match service.peer {
            Peer::V2 => false,
            Peer::V1 => true,
            other => {
                return Err(Error::invalid(format!("the service {name}: {other:?} peers cannot use gRPC")));
            }
        };
        let scheme = if host.tls { "https" } else { "http" };
        let origin: Uri = format!("{scheme}://{}", host.authority())
            .parse()
            .map_err(|error| Error::invalid(format!("the address of {name} is not a valid URI: {error}")))?;
        let client =
            Grpc::with_origin(connections(service, address, true)?, origin).max_decoding_message_size(ANSWER_MAX);
        Ok(Self { client, path, v1 })
    }

    fn request(&self, parcel: &Parcel<'_>) -> Result<Request<Envelope>> {
        let envelope = Envelope::from(parcel.envelope(self.v1)?);
        let mut headers = HeaderMap::new();
        if !self.v1 {
            let head = parcel.head(self.path, GRPC, envelope.digest());
            headers::write(&head, &head.sign(&parcel.keys), &mut headers)?;
        }
        Ok(Request::from_parts(MetadataMap::from_headers(headers), Extensions::new(), envelope))
    }

    async fn call(&self, request: Request<Envelope>) -> std::result::Result<Response<Answer>, Status> {
        let mut client = self.client.clone();
        client.ready().await.map_err(|error| Status::unknown(format!("not ready: {error}")))?;
        client.unary(request, PathAndQuery::from_static(self.path), ProstCodec::default()).await
    }
}

impl Wire for GrpcWire {
    fn exchange<'a>(&'a self, parcel: &'a Parcel<'a>) -> BoxFuture<'a, Result<Answered, WireError>> {
        Box::pin(async move {
            let response = match self.call(self.request(parcel)?).await {
                Ok(response) => response,
                Err(status) => return status::answered(&status),
            };
            let (metadata, answer, _) = response.into_parts();
            let status = match answer.status {
                // A peer that sends no status means what gRPC reports: OK.
                0 => 200,
                status => u16::try_from(status).unwrap_or(500),
            };
            Ok(answered(parcel, metadata.as_ref(), status, answer.digest(), Some(answer.into_answer())))
        })
    }
}
