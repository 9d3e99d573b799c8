//! Pushes messages to a program at a URL: it is the handler of a service, in any language.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;

use super::JSON;
use super::client::{Connections, connections, seconds, with_causes};
use crate::foreign::WebhookSigner;
use crate::transport::ClientTls;
use crate::transport::address::{Address, Host, Location};
use crate::transport::judge::of_status;
use crate::transport::services::Service;
use crate::wire::signature::hex;
use postroom_core::message::{Message, hash_bytes};
use postroom_core::queue::{Cause, Fault};
use postroom_core::store::BoxFuture;
use postroom_core::support::clock::Clock;
use postroom_core::support::error::{Error, Result};
use postroom_core::telemetry;
use postroom_core::work::delivery::{Delivery, Transport};

/// The largest answer that is kept, in bytes.
const ANSWER_MAX: usize = 64 * 1024;
/// At most this many characters of a handler's failure reason are kept.
const REASON_CHARS_MAX: usize = 2000;
const REASON_BYTES_MAX: usize = REASON_CHARS_MAX * 4;
/// These headers are forwarded unchanged: they name the trace that the message belongs to.
const TRACE: [&str; 2] = ["traceparent", "tracestate"];

/// A URL that messages are posted to, for a handler in any language.
///
/// The body is the payload, and `content-type` is the message's own or `application/json`. The headers
/// `postroom-message-id`, `postroom-topic`, `postroom-attempt` and, if known, `postroom-source` and
/// `postroom-correlation-id` describe the message. With a [`signer`](Self::signer) it is signed by Standard Webhooks.
///
/// 2xx means done, and the text of the answer (up to 64 KiB) is the response. 400, 410 and 422 mark the message dead.
/// 409 and 500 mean that the handler failed with this message, and spend an attempt. Any other status, including a
/// redirect, means that the handler is unavailable: no attempt is spent, and its messages wait until it answers
/// again. The beginning of the text is kept as the reason. Messages are delivered at least once, so the handler may
/// see one twice, with the same id.
///
/// ```
/// use std::time::Duration;
/// use postroom::{Handlers, Worker};
/// use postroom::services::PushUrl;
/// use postroom::store::{Memory, MemoryStore};
/// use postroom::webhooks::{WebhookSecret, WebhookSigner};
///
/// let secret = WebhookSecret::parse(&WebhookSecret::generate())?;
/// let url = PushUrl::new("http://127.0.0.1:8080/messages")?
///     .signer(WebhookSigner::new([secret])?)
///     .timeout(Duration::from_secs(10));
/// // Every message with a destination is posted there.
/// let worker = Worker::<Memory>::outbox(MemoryStore::new(), Handlers::new()).transport(url);
///
/// assert!(PushUrl::new("ftp://127.0.0.1/messages").is_err());
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone)]
pub struct PushUrl {
    client: Connections<Full<Bytes>>,
    uri: Uri,
    host: HeaderValue,
    signer: Option<WebhookSigner>,
    timeout: Duration,
}

impl PushUrl {
    /// Creates a target for `http://host[:port][/path]` or `https://…`. Any address is allowed, because the operator
    /// sets it.
    pub fn new(url: &str) -> Result<Self> {
        Self::with_tls(url, ClientTls::default())
    }

    /// Creates a target with TLS options.
    pub fn with_tls(url: &str, tls: ClientTls) -> Result<Self> {
        let (scheme, rest) = url.split_once("://").ok_or_else(malformed)?;
        let is_tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(malformed()),
        };
        let (host, path) = Host::parse(url, rest, is_tls).map_err(|_| malformed())?;
        let uri: Uri = format!("{scheme}://{}{path}", host.authority()).parse().map_err(|_| malformed())?;
        let authority = HeaderValue::from_str(&host.authority()).map_err(|_| malformed())?;
        let address = Address(Location::Http { host, path });
        let client = connections(&Service::new("handler", url).tls(tls), &address, false)?;
        Ok(Self { client, uri, host: authority, signer: None, timeout: Duration::from_secs(30) })
    }

    postroom_core::setters! {
        /// Signs the requests by Standard Webhooks.
        pub fn signer(mut self, signer: WebhookSigner) { self.signer = Some(signer); }

        /// Sets how long the handler may take to answer; 30 s by default.
        pub fn timeout(mut self, timeout: Duration) { self.timeout = timeout; }
    }

    /// Posts a message and returns the outcome.
    pub async fn push(&self, message: &Message) -> Delivery {
        let request = match self.request(message) {
            Ok(request) => request,
            // The message itself is at fault.
            Err(error) => return Delivery::refused(error.to_string()),
        };
        let exchange = async {
            match self.client.request(request).await {
                Ok(response) => judge(message, response).await,
                Err(error) => Delivery::unreachable(with_causes(&error)),
            }
        };
        let answered = tokio::time::timeout(self.timeout, exchange).await;
        answered.unwrap_or_else(|_| Fault::new(Cause::TimedOut, format!("no answer within {:?}", self.timeout)).into())
    }

    fn request(&self, message: &Message) -> Result<Request<Full<Bytes>>> {
        let body = Bytes::from(message.payload.clone());
        let mut head = head(message);
        if let Some(signer) = &self.signer {
            head.extend(signer.sign(&webhook_id(message), Clock::Database.now(), &body)?);
        }
        head.insert(HOST, self.host.clone());
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = head;
        Ok(request)
    }
}

impl Transport for PushUrl {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        Box::pin(self.push(message))
    }
}

/// Builds the headers that HTTP can carry; a value with a line break is left out.
fn head(message: &Message) -> HeaderMap {
    let mut head = HeaderMap::new();
    let mut set = |name: &'static str, value: Option<&str>| {
        if let Some(value) = value.and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok()) {
            head.insert(HeaderName::from_static(name), value);
        }
    };
    let (id, attempt) = (message.id(), (message.attempts + 1).to_string());
    set("postroom-message-id", Some(&id));
    set("postroom-topic", Some(&message.topic));
    set("postroom-attempt", Some(&attempt));
    set("postroom-source", message.source());
    set("postroom-correlation-id", message.correlation_id.as_deref());
    set("postroom-lane", message.lane.as_deref());
    for name in TRACE {
        set(name, message.headers.get(name).map(String::as_str));
    }
    let content_type = message.headers.get(CONTENT_TYPE.as_str()).map(String::as_str);
    let content_type = content_type.and_then(|text| HeaderValue::from_str(text).ok());
    head.insert(CONTENT_TYPE, content_type.unwrap_or(HeaderValue::from_static(JSON)));
    head
}

/// Returns an id that stays the same whenever the message is posted. An id that cannot be signed, which other
/// services may use, is hashed.
fn webhook_id(message: &Message) -> String {
    let id = message.id();
    if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'.') {
        return id;
    }
    hex(&hash_bytes(id.as_bytes()))
}

async fn judge(message: &Message, response: Response<Incoming>) -> Delivery {
    let (head, body) = response.into_parts();
    if head.status.is_success() {
        return accepted(message, body).await;
    }
    let asked = seconds(&head.headers, RETRY_AFTER.as_str());
    // The handler's text is on its own line, which is not logged.
    let why = match beginning(body).await {
        reason if reason.is_empty() => format!("it answered {}", head.status),
        reason => format!("it answered {}\n{reason}", head.status),
    };
    let cause = match head.status.as_u16() {
        400 | 410 | 422 => return Delivery::refused(why),
        // The handler failed with this particular message.
        409 | 500 => Cause::HandlerFailed,
        status => of_status(status, asked.is_some()),
    };
    Fault::new(cause, why).asking_for(asked).into()
}

/// The message was handled, whatever the answer looks like: handling it again would not improve the answer.
async fn accepted(message: &Message, body: Incoming) -> Delivery {
    let answer = match Limited::new(body, ANSWER_MAX).collect().await {
        Ok(answer) => answer.to_bytes(),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
            telemetry::answer_not_kept(message, "it is longer than 64 KiB");
            return Delivery::Accepted { response: None };
        }
        Err(error) => return Delivery::unreachable(with_causes(error.as_ref())),
    };
    let response = match std::str::from_utf8(&answer) {
        Ok("") => None,
        // Not every database can store this character.
        Ok(text) => Some(text.replace('\0', "\u{fffd}")),
        Err(_) => {
            telemetry::answer_not_kept(message, "it is not UTF-8");
            None
        }
    };
    Delivery::Accepted { response }
}

/// Returns the first characters of an answer, in one line.
async fn beginning(mut body: Incoming) -> String {
    let mut bytes = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() >= REASON_BYTES_MAX {
            break;
        }
    }
    let text = String::from_utf8_lossy(&bytes).replace('\0', "\u{fffd}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.chars().take(REASON_CHARS_MAX).collect()
}

/// The error does not quote the URL, which may contain a password.
fn malformed() -> Error {
    Error::invalid("a handler's URL is http://host:port/path or https://host:port/path, without a user or password")
}

// The part after the host may be secret.
impl fmt::Debug for PushUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushUrl")
            .field("host", &self.host)
            .field("signed", &self.signer.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use postroom_core::message::{InboxKey, Incoming};
    use postroom_core::support::clock::Timestamp;

    #[tokio::test]
    async fn a_handler_that_asks_for_time_gets_an_hour_at_most() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = PushUrl::new(&format!("http://{}/", server.local_addr().unwrap())).unwrap();
        let answering = async {
            let (mut stream, _) = server.accept().await.unwrap();
            let mut asked = [0; 4096];
            assert!(stream.read(&mut asked).await.unwrap() > 0);
            let answer = "HTTP/1.1 503 Busy\r\nretry-after: 99999\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream
        };
        let incoming = Incoming::new(InboxKey::new("orders", "7").unwrap(), "order.placed", "{}");
        let message = incoming.to_message(Timestamp::from_micros(0));
        let (delivery, _stream) = tokio::join!(url.push(&message), answering);
        let fault = delivery.fault().unwrap();
        assert_eq!((fault.cause(), fault.pause()), (Cause::Busy, Some(Duration::from_secs(3600))));
    }

    #[test]
    fn a_url_is_http_and_has_no_password() {
        for url in ["http://127.0.0.1:8080", "http://localhost/a?b=c", "http://[::1]:8080/", "https://example.com/hook"]
        {
            assert!(PushUrl::new(url).is_ok(), "{url}");
        }
        for url in ["", "127.0.0.1:8080", "ftp://a/", "unix:///a", "http://", "http://a:99999/", "http://me:hunter2@a/"]
        {
            let problem = PushUrl::new(url).unwrap_err().to_string();
            assert!(problem.contains("https://host:port/path") && !problem.contains("hunter2"), "{url}: {problem}");
        }
    }
}
