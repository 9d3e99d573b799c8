//! The sending end: one client for each destination, with its own connections.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body::Body;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::JSON;
use super::connect::Connector;
use crate::foreign::WebhookSigner;
use crate::transport::address::{Address, Location, RECEIVE_PATH};
use crate::transport::judge::{Answered, Peer};
use crate::transport::parcel::Parcel;
use crate::transport::services::Service;
use crate::transport::wires::{Wire, WireError};
use crate::wire::{Answer, headers};
use postroom_core::message::hash_bytes;
use postroom_core::store::BoxFuture;
use postroom_core::support::error::{Error, Result};

/// At most this many bytes of an answer are read.
pub(crate) const ANSWER_MAX: usize = 4 * 1024 * 1024;
const IDLE: Duration = Duration::from_secs(60);

/// Connections to one destination. They are opened when needed and kept while they are used.
pub(crate) type Connections<B> = Client<Connector, B>;

pub(crate) struct HttpWire {
    client: Connections<Full<Bytes>>,
    uri: Uri,
    path: String,
    peer: Peer,
    signer: Option<WebhookSigner>,
}

impl HttpWire {
    pub(crate) fn open(service: &Service, address: &Address) -> Result<Self> {
        let (scheme, authority, path) = match &address.0 {
            Location::Http { host, path } => (if host.tls { "https" } else { "http" }, host.authority(), path.as_str()),
            // A socket has no host at the other end.
            _ => ("http", "localhost".to_owned(), RECEIVE_PATH),
        };
        let uri: Uri = format!("{scheme}://{authority}{path}")
            .parse()
            .map_err(|error| Error::invalid(format!("the address of {} is not a valid URI: {error}", service.name)))?;
        let client = connections(service, address, service.http2)?;
        let (peer, signer) = (service.peer, service.signer.clone());
        Ok(Self { client, uri, path: path.to_owned(), peer, signer })
    }

    fn request(&self, parcel: &Parcel<'_>) -> Result<Request<Full<Bytes>>> {
        let (mut head, body) = match self.peer {
            Peer::V2 => self.signed(parcel)?,
            Peer::V1 => (typed(JSON)?, parcel.envelope(true)?.to_json()?),
            foreign => super::foreign::write(foreign, parcel, self.signer.as_ref())?,
        };
        head.entry(HOST).or_insert(authority(&self.uri)?);
        let mut request = Request::new(Full::from(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = head;
        Ok(request)
    }

    fn signed(&self, parcel: &Parcel<'_>) -> Result<(HeaderMap, Vec<u8>)> {
        let body = parcel.envelope(false)?.to_json()?;
        let head = parcel.head(&self.path, JSON, hash_bytes(&body));
        let mut headers = typed(JSON)?;
        headers::write(&head, &head.sign(&parcel.keys), &mut headers)?;
        Ok((headers, body))
    }

    async fn answered(&self, parcel: &Parcel<'_>, response: Response<Incoming>) -> Result<Answered, WireError> {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_MAX).collect().await.map_err(|error| {
            let too_long = error.downcast_ref::<LengthLimitError>().is_some();
            WireError::Broken(if too_long { "the answer is too long".into() } else { with_causes(error.as_ref()) })
        })?;
        let body = body.to_bytes();
        let answer = serde_json::from_slice(&body).ok();
        Ok(answered(parcel, &head.headers, head.status.as_u16(), hash_bytes(&body), answer))
    }
}

impl Wire for HttpWire {
    fn exchange<'a>(&'a self, parcel: &'a Parcel<'a>) -> BoxFuture<'a, Result<Answered, WireError>> {
        Box::pin(async move {
            let request = self.request(parcel)?;
            let response =
                self.client.request(request).await.map_err(|error| WireError::Broken(with_causes(&error)))?;
            self.answered(parcel, response).await
        })
    }
}

/// Creates the connections to a service. With `http2`, they use HTTP/2 without negotiation.
pub(crate) fn connections<B>(service: &Service, address: &Address, http2: bool) -> Result<Connections<B>>
where
    B: Body<Data: Send> + Send,
{
    let connector = Connector::new(service, &address.0)?;
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .http2_only(http2)
        .http2_keep_alive_interval(http2.then_some(Duration::from_secs(20)))
        // If a request may have been sent, only the worker tries it again, because the worker counts attempts.
        .retry_canceled_requests(true)
        .build(connector))
}

/// Returns an answer with what its headers say about it.
pub(crate) fn answered(
    parcel: &Parcel<'_>,
    headers: &HeaderMap,
    status: u16,
    digest: [u8; 32],
    answer: Option<Answer>,
) -> Answered {
    let (retry_after, window) = (seconds(headers, RETRY_AFTER.as_str()), seconds(headers, headers::RETENTION));
    Answered { status, has_receipt: parcel.proves(headers, status, digest), retry_after, window, answer }
}

/// Returns a header of an answer.
pub(crate) fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Returns a header of an answer that contains a number of seconds.
pub(crate) fn seconds(headers: &HeaderMap, name: &str) -> Option<Duration> {
    text(headers, name)?.trim().parse().ok().map(Duration::from_secs)
}

pub(super) fn typed(content_type: &str) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    let value = HeaderValue::from_str(content_type)
        .map_err(|_| Error::invalid("the content type is not a valid header value"))?;
    headers.insert(CONTENT_TYPE, value);
    Ok(headers)
}

fn authority(uri: &Uri) -> Result<HeaderValue> {
    let authority = uri.authority().map_or("localhost", |authority| authority.as_str());
    HeaderValue::from_str(authority).map_err(|_| Error::invalid("the host name is not a valid header value"))
}

/// Formats an error with its causes, because the first one alone only says that something went wrong.
pub(crate) fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
