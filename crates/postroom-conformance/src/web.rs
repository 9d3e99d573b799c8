//! The rest of the web: a server that notes what it is sent, and a client that sends what the case says.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::peer::Said;

/// What the server was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Its path.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Sent {
    /// A header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// A server that knows nothing of us. It answers with the status that its path ends with.
#[derive(Debug)]
pub struct WebServer {
    address: String,
    sent: Arc<Mutex<Vec<Sent>>>,
    _accepting: JoinSet<()>,
}

impl WebServer {
    /// Listens at a free port.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, sent) = (format!("http://{}", listener.local_addr()?), Arc::<Mutex<Vec<Sent>>>::default());
        let (mut accepting, noted) = (JoinSet::new(), sent.clone());
        accepting.spawn(async move {
            let mut conversations = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let noted = noted.clone();
                let answer = service_fn(move |request| answer(request, noted.clone()));
                conversations.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        Ok(Self { address, sent, _accepting: accepting })
    }

    /// The address of a page that answers with this status.
    pub fn page(&self, status: u16) -> String {
        format!("{}/{status}", self.address)
    }

    /// Everything it was sent so far.
    pub fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn answer(
    request: Request<hyper::body::Incoming>,
    noted: Arc<Mutex<Vec<Sent>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let path = head.uri.path().to_owned();
    let status = path.trim_start_matches('/').parse().unwrap_or(404);
    noted.lock().unwrap_or_else(PoisonError::into_inner).push(Sent { path, headers: head.headers, body });
    let mut response = Response::new(Full::from("thanks"));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    Ok(response)
}

/// Posts a body.
pub async fn post(url: &str, headers: &[(&str, &str)], body: &str) -> anyhow::Result<Said> {
    let request = headers.iter().fold(Request::post(url), |request, (name, value)| request.header(*name, *value));
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    Said::of(client.request(request.body(Full::from(body.to_owned()))?).await?).await
}
