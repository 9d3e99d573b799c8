//! RabbitMQ: publisher confirms on the way out, manual acknowledgements on the way in.

use std::fmt;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::future::{Fuse, FusedFuture, FutureExt};
use futures_util::stream::StreamExt;
use lapin::message::Delivery as Brought;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
};
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use postroom::message::Headers;
use postroom::store::BoxFuture;
use postroom::worker::{Delivery, Transport};
use postroom::{Inbox, Message};
use tracing::warn;

use crate::intake::{self, Arrived, Verdict};

const PERSISTENT: u8 = 2;
/// A broker short of memory or disk confirms nothing for a while; the message is sent again later.
const PATIENCE: Duration = Duration::from_secs(30);
/// Before the broker is tried again, and before a message goes back to it.
const PAUSE: Duration = Duration::from_secs(1);

/// Publishes outbox messages: the destination is the exchange, the topic is the routing key.
pub struct ToRabbitMq {
    url: String,
    connection: tokio::sync::Mutex<Option<Connection>>,
    /// Each message has a channel for itself: `lapin` hands a message that comes back to whichever confirm of the same
    /// channel is next, and with two of them the wrong one would count as delivered.
    idle: Mutex<Vec<Channel>>,
}

impl ToRabbitMq {
    /// Connects with the first message.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), connection: tokio::sync::Mutex::default(), idle: Mutex::default() }
    }

    async fn publish(&self, message: &Message) -> lapin::Result<Delivery> {
        let exchange = ShortString::try_new(message.destination().unwrap_or_default());
        let topic = ShortString::try_new(message.topic.as_str());
        let (Ok(exchange), Ok(topic), Some(properties)) = (exchange, topic, properties(message)) else {
            return Ok(Delivery::refused("a name is longer than AMQP's 255 bytes"));
        };
        let channel = self.channel().await?;
        // Mandatory: what reaches no queue comes back, instead of being dropped without a word.
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let confirm = channel.basic_publish(exchange, topic, options, message.payload.as_bytes(), properties).await?;
        let delivery = match confirm.await? {
            Confirmation::Ack(None) => Delivery::Accepted { response: None },
            Confirmation::Ack(Some(_)) => Delivery::no_route(message.destination()),
            // A full queue, or a broker in trouble: not the message's fault.
            Confirmation::Nack(_) => Delivery::unreachable("the broker could not keep the message"),
            Confirmation::NotRequested => Delivery::unreachable("the broker confirms nothing"),
        };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(channel);
        Ok(delivery)
    }

    /// An idle channel, or a new one, on a new connection if need be.
    async fn channel(&self) -> lapin::Result<Channel> {
        let mut connection = self.connection.lock().await;
        if let Some(connection) = connection.as_ref().filter(|connection| connection.status().connected()) {
            while let Some(channel) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
                if channel.status().connected() {
                    return Ok(channel);
                }
            }
            return confirming(connection).await;
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let fresh = Connection::connect(&self.url, ConnectionProperties::default()).await?;
        confirming(connection.insert(fresh)).await
    }
}

async fn confirming(connection: &Connection) -> lapin::Result<Channel> {
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok(channel)
}

impl Transport for ToRabbitMq {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        Box::pin(async move {
            match tokio::time::timeout(PATIENCE, self.publish(message)).await {
                Ok(Ok(delivery)) => delivery,
                Ok(Err(error)) => judged(message, &error),
                Err(_) => Delivery::unreachable("RabbitMQ does not answer"),
            }
        })
    }
}

/// What is not the message's fault lets it wait, and spends no attempt.
fn judged(message: &Message, error: &lapin::Error) -> Delivery {
    let soft = match error.kind() {
        lapin::ErrorKind::ProtocolError(error) => Some(error.kind()),
        _ => None,
    };
    match soft {
        Some(AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND)) => Delivery::no_route(message.destination()),
        Some(AMQPErrorKind::Soft(AMQPSoftError::CONTENTTOOLARGE | AMQPSoftError::PRECONDITIONFAILED)) => {
            Delivery::refused(format!("RabbitMQ: {error}"))
        }
        _ => Delivery::unreachable(format!("RabbitMQ: {error}")),
    }
}

/// None when a name is too long.
fn properties(message: &Message) -> Option<BasicProperties> {
    let mut headers = FieldTable::default();
    for (name, value) in &message.headers {
        headers.insert(ShortString::try_new(name.as_str()).ok()?, AMQPValue::LongString(value.as_str().into()));
    }
    let properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(message.id().into())
        .with_type(ShortString::try_new(message.topic.as_str()).ok()?)
        .with_timestamp(u64::try_from(message.created_at.as_micros() / 1_000_000).unwrap_or_default())
        .with_headers(headers);
    match &message.correlation_id {
        Some(id) => Some(properties.with_correlation_id(ShortString::try_new(id.as_str()).ok()?)),
        None => Some(properties),
    }
}

/// Takes what stands in a queue into an inbox.
#[derive(Clone)]
pub struct FromRabbitMq {
    /// How the broker is reached.
    pub url: String,
    /// The queue. Give it a dead-letter exchange: without one RabbitMQ drops what is put aside.
    pub queue: String,
    /// The name that messages of this queue are known by in the inbox.
    pub source: String,
    /// So many messages at most are on their way into the inbox at once; they share its commits.
    pub prefetch: u16,
}

impl FromRabbitMq {
    /// Runs until `shutdown`; what is on its way then is finished. Connects again as often as it has to.
    pub async fn run(&self, inbox: &Inbox, shutdown: impl Future<Output = ()> + Send) {
        let mut shutdown = pin!(shutdown.fuse());
        while !shutdown.is_terminated() {
            if let Err(error) = self.consume(inbox, &mut shutdown).await {
                warn!(queue = self.queue, %error, "RabbitMQ is out of reach; trying again");
                let _ = tokio::time::timeout(PAUSE, &mut shutdown).await;
            }
        }
    }

    async fn consume<F: Future<Output = ()>>(
        &self,
        inbox: &Inbox,
        shutdown: &mut std::pin::Pin<&mut Fuse<F>>,
    ) -> Result<()> {
        let connection = tokio::select! {
            connected = Connection::connect(&self.url, ConnectionProperties::default()) => connected?,
            () = &mut *shutdown => return Ok(()),
        };
        let channel = connection.create_channel().await?;
        channel.basic_qos(self.prefetch, BasicQosOptions::default()).await?;
        let (queue, tag) = (ShortString::try_new(self.queue.as_str())?, ShortString::default());
        let brought = channel.basic_consume(queue, tag, BasicConsumeOptions::default(), FieldTable::default()).await?;
        let mut settled = brought
            .take_until(&mut *shutdown)
            .map(async |brought| self.settle(inbox, brought?).await)
            .buffer_unordered(self.prefetch.into());
        while let Some(settled) = settled.next().await {
            settled?;
        }
        drop(settled);
        if !shutdown.is_terminated() {
            bail!("the queue was deleted, or the connection lost");
        }
        // What was fetched and not begun goes back to the queue.
        Ok(connection.close(200, "stopping".into()).await?)
    }

    #[expect(clippy::disallowed_methods, reason = "there is no signal for a database that is back")]
    async fn settle(&self, inbox: &Inbox, brought: Brought) -> Result<()> {
        let properties = &brought.properties;
        let arrived = Arrived {
            id: properties.message_id().as_ref().map(ShortString::as_str),
            topic: properties.kind().as_ref().map_or(brought.routing_key.as_str(), ShortString::as_str),
            payload: &brought.data,
            headers: text_headers(properties.headers().as_ref()),
            correlation_id: properties.correlation_id().as_ref().map(ShortString::as_str),
        };
        let nack = |requeue| BasicNackOptions { requeue, ..BasicNackOptions::default() };
        let told = match intake::take(inbox, &self.source, arrived).await {
            Verdict::Stored => brought.ack(BasicAckOptions::default()).await,
            Verdict::Poison => brought.nack(nack(false)).await,
            Verdict::Later => {
                // It would be back at once.
                tokio::time::sleep(PAUSE).await;
                brought.nack(nack(true)).await
            }
        };
        told.map(drop).context("RabbitMQ was not told; it brings the message again")
    }
}

// The URL holds a password: it is never printed.
impl fmt::Debug for FromRabbitMq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromRabbitMq").field("queue", &self.queue).field("source", &self.source).finish_non_exhaustive()
    }
}

impl fmt::Debug for ToRabbitMq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToRabbitMq").finish_non_exhaustive()
    }
}

/// What RabbitMQ itself adds is no text, and stays behind.
fn text_headers(table: Option<&FieldTable>) -> Headers {
    let text = |value: &AMQPValue| match value {
        AMQPValue::LongString(value) => std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned),
        AMQPValue::ShortString(value) => Some(value.to_string()),
        _ => None,
    };
    let entries = table.into_iter().flat_map(|table| table.inner());
    entries.filter_map(|(name, value)| Some((name.to_string(), text(value)?))).collect()
}
