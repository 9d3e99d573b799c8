//! A service that speaks the wire by itself: written from its description, without the library's own code.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use postroom::clock::{ManualClock, Timestamp};
use postroom::handler::Backend;
use postroom::message::hash_bytes;
use postroom::services::{HttpService, Key, Secret};
use postroom::{InboxKey, MessageId};
use serde_json::{Map, Value, json};
use sha2::Sha256;
use tower_service::Service;

/// Where receivers take messages.
pub const PATH: &str = "/_rf/receive";
/// What a peer and a receiver share, unless a case says otherwise.
pub const SECRET: &str = "an example secret that both of them know";
/// The id of the key that is made of it.
pub const KEY_ID: &str = "first";

/// The key that both of them have.
pub fn key() -> postroom::Result<Key> {
    Key::new(KEY_ID, Secret::parse(SECRET)?)
}

/// A message on paper: what is written in its envelope.
#[derive(Clone, Debug)]
pub struct Letter {
    /// Its id.
    pub id: MessageId,
    /// Its endpoint.
    pub topic: String,
    /// Its type.
    pub kind: &'static str,
    /// Its payload, in JSON.
    pub payload: String,
    /// Its correlation id.
    pub correlation_id: Option<String>,
    /// Its headers.
    pub headers: Map<String, Value>,
    /// When it was enqueued; now by default.
    pub enqueued_at: Option<Timestamp>,
    /// Not before this time.
    pub due_at: Option<Timestamp>,
}

impl Letter {
    /// A command with an empty object.
    pub fn new(topic: &str) -> Self {
        Self {
            id: MessageId::new(),
            topic: topic.into(),
            kind: "Command",
            payload: "{}".into(),
            correlation_id: None,
            headers: Map::new(),
            enqueued_at: None,
            due_at: None,
        }
    }

    /// The same letter with another payload.
    #[must_use]
    pub fn saying(&self, payload: &str) -> Self {
        Self { payload: payload.into(), ..self.clone() }
    }

    /// The payload keeps its bytes.
    fn body(&self, source: &str) -> String {
        let [id, source, kind] = [&self.id.to_string(), source, self.kind].map(|text| json!(text));
        let (topic, correlation_id, headers) = (json!(self.topic), json!(self.correlation_id), json!(self.headers));
        let payload = &self.payload;
        format!(
            r#"{{"messageId":{id},"correlationId":{correlation_id},"sourceServiceId":{source},"messageType":{kind},"#
        ) + &format!(r#""endpoint":{topic},"payload":{payload},"headers":{headers}}}"#)
    }
}

/// A service with a key.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name.
    pub source: String,
    /// Whom it writes to.
    pub destination: String,
    /// The id of its key.
    pub key_id: String,
    /// Its secret.
    pub secret: String,
    /// Its clock.
    pub clock: ManualClock,
}

impl Peer {
    /// The service `orders` writes to `inventory`.
    pub fn new(clock: ManualClock) -> Self {
        let names = ("orders".into(), "inventory".into(), KEY_ID.into(), SECRET.into());
        Self { source: names.0, destination: names.1, key_id: names.2, secret: names.3, clock }
    }

    /// The one it writes to, writing back.
    #[must_use]
    pub fn turned_round(&self) -> Self {
        Self { source: self.destination.clone(), destination: self.source.clone(), ..self.clone() }
    }

    /// Where a message of this peer stands in the receiver's inbox.
    pub fn key_of(&self, letter: &Letter) -> anyhow::Result<InboxKey> {
        Ok(InboxKey::new(&self.source, letter.id.to_string())?)
    }

    /// A request, signed by v2.
    pub fn request(&self, letter: &Letter) -> anyhow::Result<Request<Full<Bytes>>> {
        let (now, body) = (self.clock.now(), letter.body(&self.source));
        let times = (letter.enqueued_at.unwrap_or(now).as_micros().to_string(), now.as_micros().to_string());
        let due_at = letter.due_at.map(|due| due.as_micros().to_string()).unwrap_or_default();
        let (id, digest) = (letter.id.to_string(), hash_bytes(&body));
        let signed = pieces(&[
            b"rf-sig-v2",
            b"req",
            self.key_id.as_bytes(),
            self.source.as_bytes(),
            self.destination.as_bytes(),
            b"POST",
            PATH.as_bytes(),
            id.as_bytes(),
            times.0.as_bytes(),
            due_at.as_bytes(),
            b"1",
            times.1.as_bytes(),
            b"application/json",
            &digest,
        ]);
        let signature = self.mac("postroom v2 request", &signed)?;
        let mut request = post(body)?;
        for (name, value) in [
            ("rf-version", "2"),
            ("rf-source", &self.source),
            ("rf-destination", &self.destination),
            ("rf-message-id", &id),
            ("rf-enqueued-at", &times.0),
            ("rf-due-at", &due_at),
            ("rf-attempt", "1"),
            ("rf-timestamp", &times.1),
            ("rf-content-sha256", &hex(&digest)),
            ("rf-signature", &format!("v2;kid={};{signature}", self.key_id)),
        ] {
            if !value.is_empty() {
                request.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_str(value)?);
            }
        }
        Ok(request)
    }

    /// A request, signed by v1.
    pub fn request_v1(&self, letter: &Letter) -> anyhow::Result<Request<Full<Bytes>>> {
        let hash = hex(&hash_bytes(&letter.payload));
        let text = format!("{}{}{}{hash}", letter.id, self.source, letter.topic);
        let signature = STANDARD.encode(hmac(self.secret.as_bytes(), text.as_bytes())?);
        let mut letter = letter.clone();
        letter.headers.insert("rf-hmac".into(), signature.into());
        post(letter.body(&self.source))
    }

    /// Whether the receiver itself said this to that request.
    pub fn is_receipt(&self, request: &HeaderMap, said: &Said) -> anyhow::Result<bool> {
        let value = |name: &str| request.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let signed = pieces(&[
            b"rf-ack-v2",
            b"ack",
            self.key_id.as_bytes(),
            self.destination.as_bytes(),
            value("rf-message-id").as_bytes(),
            value("rf-timestamp").as_bytes(),
            said.status.to_string().as_bytes(),
            &hash_bytes(&said.body),
            said.header("retry-after").unwrap_or_default().as_bytes(),
            said.header("rf-inbox-retention").unwrap_or_default().as_bytes(),
        ]);
        let expected = format!("v2;kid={};{}", self.key_id, self.mac("postroom v2 receipt", &signed)?);
        Ok(said.header("rf-ack") == Some(expected.as_str()))
    }

    fn mac(&self, purpose: &str, data: &[u8]) -> anyhow::Result<String> {
        let subkey = hmac(self.secret.as_bytes(), purpose.as_bytes())?;
        Ok(URL_SAFE_NO_PAD.encode(hmac(&subkey, data)?))
    }
}

fn post(body: String) -> anyhow::Result<Request<Full<Bytes>>> {
    Ok(Request::post(PATH).header("content-type", "application/json").body(Full::from(body))?)
}

/// HMAC-SHA256.
pub fn hmac(key: &[u8], data: &[u8]) -> anyhow::Result<Vec<u8>> {
    Ok(Hmac::<Sha256>::new_from_slice(key)?.chain_update(data).finalize().into_bytes().to_vec())
}

fn pieces(pieces: &[&[u8]]) -> Vec<u8> {
    let length = |number: usize| (number as u64).to_le_bytes();
    let each = pieces.iter().flat_map(|piece| [&length(piece.len()), *piece].concat());
    length(pieces.len()).into_iter().chain(each).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a receiver said.
#[derive(Clone, PartialEq, Debug)]
pub struct Said {
    /// By the numbers of HTTP.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Word for word.
    pub body: Bytes,
}

impl Said {
    /// What came back over any wire.
    pub async fn of<T>(response: Response<T>) -> anyhow::Result<Self>
    where
        T: BodyExt<Data = Bytes>,
        T::Error: std::error::Error + Send + Sync + 'static,
    {
        let (head, body) = response.into_parts();
        Ok(Self { status: head.status.as_u16(), headers: head.headers, body: body.collect().await?.to_bytes() })
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// For how long it asks for time.
    pub fn retry_after(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.header("retry-after")?.parse().ok()?))
    }

    fn field(&self, name: &str) -> Value {
        serde_json::from_slice::<Value>(&self.body).ok().and_then(|body| body.get(name).cloned()).unwrap_or_default()
    }

    /// The handler's answer, if there is one.
    pub fn payload(&self) -> Value {
        self.field("payload")
    }

    /// Whether it says that the message came before.
    pub fn is_duplicate(&self) -> bool {
        self.field("duplicateDetected") == true
    }

    /// What it complains of.
    pub fn error(&self) -> String {
        self.field("error").as_str().unwrap_or_default().to_owned()
    }
}

/// Asks a receiver without a wire in between.
pub async fn ask<B: Backend>(service: &HttpService<B>, request: Request<Full<Bytes>>) -> anyhow::Result<Said> {
    let Ok(response) = service.clone().call(request).await;
    Said::of(response).await
}
