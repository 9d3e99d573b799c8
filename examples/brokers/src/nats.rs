//! NATS JetStream: a stored copy in the stream on the way out, explicit acknowledgements on the way in.

use std::pin::{Pin, pin};
use std::time::Duration;

use anyhow::Result;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::{self, AckKind, Context};
use async_nats::{Client, HeaderMap, HeaderName, HeaderValue};
use futures_util::future::{Fuse, FusedFuture, FutureExt};
use futures_util::stream::StreamExt;
use postroom::message::{Headers, Origin};
use postroom::store::BoxFuture;
use postroom::worker::{Delivery, Transport};
use postroom::{Inbox, Message};
use tracing::{error, warn};

use crate::intake::{self, Arrived, Verdict};

/// By which a stream knows a message again, for two minutes unless it is told otherwise.
const ID: &str = "Nats-Msg-Id";
const TOPIC: &str = "Postroom-Topic";
const CORRELATION_ID: &str = "Postroom-Correlation-Id";
/// Names that are not the user's.
const RESERVED: [&str; 2] = ["Nats-", "Postroom-"];
/// Before the broker is tried again, and before a message comes again.
const PAUSE: Duration = Duration::from_secs(1);

/// Publishes outbox messages under the subject `destination.topic`, which a stream must hold.
#[derive(Clone, Debug)]
pub struct ToNats(Context);

impl ToNats {
    /// On a client, which connects again by itself.
    pub fn new(client: Client) -> Self {
        Self(jetstream::new(client))
    }

    async fn publish(&self, message: &Message) -> Result<Delivery, jetstream::context::PublishError> {
        let subject = format!("{}.{}", message.destination().unwrap_or_default(), message.topic);
        let (true, Some(headers)) = (is_subject(&subject), headers_of(message)) else {
            return Ok(Delivery::refused("a name or header that NATS does not allow"));
        };
        let sent = self.0.publish_with_headers(subject, headers, message.payload.clone().into()).await?;
        // The server's word that the stream has it.
        sent.await?;
        Ok(Delivery::Accepted { response: None })
    }
}

impl Transport for ToNats {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        Box::pin(async move {
            self.publish(message).await.unwrap_or_else(|error| match error.kind() {
                PublishErrorKind::StreamNotFound => Delivery::no_route(message.destination()),
                PublishErrorKind::MaxPayloadExceeded => Delivery::refused(format!("NATS: {error}")),
                // A full stream, a broken connection: not the message's fault. It waits, and spends no attempt.
                _ => Delivery::unreachable(format!("NATS: {error}")),
            })
        })
    }
}

fn is_subject(subject: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && !word.contains(['*', '>']) && !word.contains(char::is_whitespace);
    subject.split('.').all(is_word)
}

/// None when NATS does not allow one of them.
fn headers_of(message: &Message) -> Option<HeaderMap> {
    // The id of the row and not that of the message: one message to two destinations may end in one stream.
    let Origin::Outbox { id, .. } = &message.origin else { return None };
    let own = [(ID, id.to_string()), (TOPIC, message.topic.clone())];
    let own = own.into_iter().chain(message.correlation_id.clone().map(|id| (CORRELATION_ID, id)));
    let mut headers = HeaderMap::new();
    let given = message.headers.iter().filter(|(name, _)| !is_reserved(name));
    for (name, value) in given.map(|(name, value)| (name.as_str(), value.clone())).chain(own) {
        headers.insert(name.parse::<HeaderName>().ok()?, value.parse::<HeaderValue>().ok()?);
    }
    Some(headers)
}

/// Takes what stands in a stream into an inbox.
#[derive(Clone, Debug)]
pub struct FromNats {
    /// The broker.
    pub client: Client,
    /// The stream.
    pub stream: String,
    /// The durable consumer, by which the stream remembers how far we are. It is created when it is missing.
    pub consumer: String,
    /// The name that messages of this stream are known by in the inbox.
    pub source: String,
    /// So many messages at most are on their way into the inbox at once; they share its commits.
    pub prefetch: usize,
}

impl FromNats {
    /// Runs until `shutdown`; what is on its way then is finished. Connects again as often as it has to.
    pub async fn run(&self, inbox: &Inbox, shutdown: impl Future<Output = ()> + Send) {
        let mut shutdown = pin!(shutdown.fuse());
        while !shutdown.is_terminated() {
            if let Err(error) = self.consume(inbox, &mut shutdown).await {
                warn!(stream = self.stream, %error, "JetStream is out of reach; trying again");
                let _ = tokio::time::timeout(PAUSE, &mut shutdown).await;
            }
        }
    }

    async fn consume<F: Future<Output = ()>>(
        &self,
        inbox: &Inbox,
        shutdown: &mut Pin<&mut Fuse<F>>,
    ) -> Result<(), async_nats::Error> {
        let brought = tokio::select! {
            brought = self.subscribe() => brought?,
            () = &mut *shutdown => return Ok(()),
        };
        let mut settled = brought
            .take_until(&mut *shutdown)
            .map(async |brought| self.settle(inbox, brought?).await)
            .buffer_unordered(self.prefetch);
        while let Some(settled) = settled.next().await {
            settled?;
        }
        drop(settled);
        if !shutdown.is_terminated() {
            return Err("the subscription ended".into());
        }
        // The last acknowledgements may still be in a buffer.
        Ok(tokio::time::timeout(PAUSE, self.client.flush()).await??)
    }

    async fn subscribe(&self) -> Result<pull::Stream, async_nats::Error> {
        let prefetch = i64::try_from(self.prefetch)?;
        let config = pull::Config {
            durable_name: Some(self.consumer.clone()),
            ack_policy: AckPolicy::Explicit,
            max_ack_pending: prefetch,
            ..pull::Config::default()
        };
        let stream = jetstream::new(self.client.clone()).get_stream(&self.stream).await?;
        let consumer = stream.get_or_create_consumer(&self.consumer, config).await?;
        Ok(consumer.stream().max_messages_per_batch(self.prefetch).messages().await?)
    }

    async fn settle(&self, inbox: &Inbox, brought: jetstream::Message) -> Result<(), async_nats::Error> {
        let header = |name: &str| Some(brought.headers.as_ref()?.get(name)?.as_str());
        let arrived = Arrived {
            id: header(ID),
            topic: header(TOPIC).unwrap_or(brought.subject.as_str()),
            payload: &brought.payload,
            headers: brought.headers.as_ref().map(own_headers).unwrap_or_default(),
            correlation_id: header(CORRELATION_ID),
        };
        let told = match intake::take(inbox, &self.source, arrived).await {
            Verdict::Stored => AckKind::Ack,
            Verdict::Later => AckKind::Nak(Some(PAUSE)),
            Verdict::Poison => {
                let sequence = brought.info()?.stream_sequence;
                error!(stream = self.stream, sequence, "this message of the stream is not brought again");
                AckKind::Term
            }
        };
        brought.ack_with(told).await
    }
}

fn own_headers(headers: &HeaderMap) -> Headers {
    let entries = headers.iter().filter_map(|(name, values)| Some((name.to_string(), values.first()?.to_string())));
    entries.filter(|(name, _)| !is_reserved(name)).collect()
}

fn is_reserved(name: &str) -> bool {
    RESERVED.iter().any(|reserved| name.starts_with(reserved))
}
