//! RabbitMQ, and what is its own: properties, and messages that reach no queue.

use anyhow::{Context, ensure};
use futures_util::StreamExt;
use lapin::options::{
    BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use libtest_mimic::Trial;
use postroom::queue::Cause;
use postroom::worker::{Delivery, Transport};
use postroom::{Inbox, NewMessage};
use postroom_brokers::intake::{self, Arrived, Verdict};
use postroom_brokers::rabbitmq::{FromRabbitMq, ToRabbitMq};
use postroom_testbed::BrokerKind;
use tokio::sync::oneshot;

use crate::rig::{Raw, Rig, unique};
use crate::shop::{Shop, next};
use crate::trial;

/// An exchange, a queue for `order.placed` of the same name, and one for its dead letters.
pub(crate) struct RabbitMq {
    url: String,
    name: String,
    channel: Channel,
    _connection: Connection,
}

impl RabbitMq {
    fn dead(&self) -> ShortString {
        format!("{}-dead", self.name).into()
    }

    async fn bind(&self) -> anyhow::Result<()> {
        let name = || ShortString::from(self.name.as_str());
        let (topic, options) = ("order.placed".into(), QueueBindOptions::default());
        Ok(self.channel.queue_bind(name(), name(), topic, options, FieldTable::default()).await?)
    }

    async fn count(&self, queue: ShortString) -> anyhow::Result<u64> {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        Ok(self.channel.queue_declare(queue, passive, FieldTable::default()).await?.message_count().into())
    }

    fn consumer(&self) -> FromRabbitMq {
        let (url, queue) = (self.url.clone(), self.name.clone());
        FromRabbitMq { url, queue, source: "rabbitmq".into(), prefetch: 16 }
    }
}

impl Rig for RabbitMq {
    const KIND: BrokerKind = BrokerKind::RabbitMq;

    async fn set_up(url: &str) -> anyhow::Result<Self> {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let rig = Self { url: url.to_owned(), name: unique(), channel, _connection: connection };
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let exchange = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let (name, kind) = (rig.name.as_str(), ExchangeKind::Topic);
        rig.channel.exchange_declare(name.into(), kind, exchange, FieldTable::default()).await?;
        rig.channel.queue_declare(rig.dead(), durable, FieldTable::default()).await?;
        let mut dead_letters = FieldTable::default();
        dead_letters.insert("x-dead-letter-exchange".into(), AMQPValue::LongString("".into()));
        dead_letters.insert("x-dead-letter-routing-key".into(), AMQPValue::LongString(rig.dead().to_string().into()));
        rig.channel.queue_declare(name.into(), durable, dead_letters).await?;
        rig.bind().await?;
        Ok(rig)
    }

    fn destination(&self) -> String {
        self.name.clone()
    }

    fn transport(&self) -> impl Transport {
        ToRabbitMq::new(&self.url)
    }

    async fn take_all(&self, inbox: &Inbox, shutdown: impl Future<Output = ()> + Send) {
        self.consumer().run(inbox, shutdown).await;
    }

    async fn put(&self, raw: Raw<'_>) -> anyhow::Result<()> {
        let properties = BasicProperties::default().with_type("order.placed".into());
        let properties = match raw.id {
            Some(id) => properties.with_message_id(id.into()),
            None => properties,
        };
        let (queue, options) = (self.name.as_str().into(), BasicPublishOptions::default());
        let confirm = self.channel.basic_publish("".into(), queue, options, raw.payload, properties).await?.await?;
        ensure!(confirm.is_ack(), "the broker refused it");
        Ok(())
    }

    fn bad_id() -> String {
        "ends with a blank ".into()
    }

    async fn take_one_and_die(&self, inbox: &Inbox) -> anyhow::Result<()> {
        let connection = Connection::connect(&self.url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let (queue, options) = (self.name.as_str().into(), BasicConsumeOptions::default());
        let mut brought = channel.basic_consume(queue, "".into(), options, FieldTable::default()).await?;
        let one = brought.next().await.context("nothing came")??;
        let id = one.properties.message_id().as_ref().map(ShortString::as_str);
        let (topic, headers) = ("order.placed", postroom::message::Headers::new());
        let arrived = Arrived { id, topic, payload: &one.data, headers, correlation_id: None };
        ensure!(intake::take(inbox, "rabbitmq", arrived).await == Verdict::Stored, "it was not stored");
        Ok(connection.close(200, "dying".into()).await?)
    }

    async fn was_taken(&self) -> anyhow::Result<bool> {
        Ok(self.left().await? == 0)
    }

    async fn left(&self) -> anyhow::Result<u64> {
        self.count(self.name.as_str().into()).await
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_published_message_has_all_its_properties", has_all_its_properties),
        trial("what_reaches_no_queue_is_told_from_what_does", reaches_no_queue),
        trial("an_exchange_that_is_missing_is_no_route", no_exchange),
        trial("poison_goes_to_the_dead_letters", poison_goes_to_the_dead_letters),
    ]
}

async fn has_all_its_properties(rig: RabbitMq) -> anyhow::Result<()> {
    let shop = Shop::open().await?;
    let message = NewMessage::new("order.placed", "'7' 🦀").to(&rig.name).correlation_id("basket-7");
    let message = message.header("tenant", "blue");
    let id = message.message_id();
    shop.outbox.enqueue(message).await?;
    ensure!(
        send_until(&shop, &rig, |told| !told.is_empty()).await?[0].1 == Delivery::Accepted { response: None },
        "it was not accepted"
    );

    let options = BasicGetOptions { no_ack: true };
    let got = rig.channel.basic_get(rig.name.as_str().into(), options).await?.context("nothing arrived")?;
    let properties = &got.properties;
    ensure!(got.data == "'7' 🦀".as_bytes(), "another payload");
    ensure!(got.routing_key.as_str() == "order.placed", "another routing key");
    ensure!(*properties.delivery_mode() == Some(2), "it would not survive a restart");
    ensure!(*properties.message_id() == Some(id.to_string().into()), "another id");
    ensure!(*properties.kind() == Some("order.placed".into()), "another type");
    ensure!(*properties.correlation_id() == Some("basket-7".into()), "another correlation id");
    ensure!(properties.timestamp().is_some_and(|seconds| seconds > 1_700_000_000), "no time");
    let headers = properties.headers().as_ref().context("no headers")?.inner();
    ensure!(headers.get("tenant") == Some(&AMQPValue::LongString("blue".into())), "another header");
    ensure!(rig.left().await? == 0, "it arrived twice");
    Ok(())
}

/// Many at once, large and small, some of them unroutable: each is told its own fate.
async fn reaches_no_queue(rig: RabbitMq) -> anyhow::Result<()> {
    let shop = Shop::open().await?;
    let message = |n: u64| {
        let topic = if n % 7 == 3 { "order.nobody.wants" } else { "order.placed" };
        let payload = "x".repeat(if n.is_multiple_of(3) { 50_000 } else { 10 });
        NewMessage::new(topic, payload).to(&rig.name)
    };
    shop.outbox.enqueue_many((0..1400).map(message)).await?;
    let accepted = |told: &Told| matches!(told.1, Delivery::Accepted { .. });
    let deliveries = send_until(&shop, &rig, |told| told.iter().filter(|told| accepted(told)).count() >= 1200).await?;
    for (topic, delivery) in deliveries {
        let has_come_back = delivery.fault().is_some_and(|fault| fault.cause() == Cause::NoRoute);
        ensure!(has_come_back == (topic != "order.placed"), "{topic}: {delivery:?}");
    }
    ensure!(rig.left().await? == 1200, "{} of 1200 arrived", rig.left().await?);
    let stats = shop.outbox.queue().stats().await?;
    ensure!((stats.done, stats.ready) == (1200, 200), "{stats:?}");
    Ok(())
}

async fn no_exchange(rig: RabbitMq) -> anyhow::Result<()> {
    let shop = Shop::open().await?;
    shop.outbox.enqueue(NewMessage::new("order.placed", "{}").to(unique())).await?;
    ensure!(
        send_until(&shop, &rig, |told| !told.is_empty()).await?[0]
            .1
            .fault()
            .is_some_and(|fault| fault.cause() == Cause::NoRoute),
        "it has a route"
    );
    // Its channel is gone; the next message gets another one.
    shop.outbox.enqueue(NewMessage::new("order.placed", "{}").to(&rig.name)).await?;
    let deliveries = send_until(&shop, &rig, |told| told.len() >= 2).await?;
    ensure!(deliveries.iter().any(|(_, delivery)| matches!(delivery, Delivery::Accepted { .. })), "{deliveries:?}");
    Ok(())
}

async fn poison_goes_to_the_dead_letters(rig: RabbitMq) -> anyhow::Result<()> {
    rig.put(Raw { id: None, payload: b"{}" }).await?;
    let shop = Shop::open().await?;
    let (stop, stopped) = oneshot::channel::<()>();
    let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    let mut dead = rig.channel.basic_consume(rig.dead(), "".into(), options, FieldTable::default()).await?;
    let watching = async {
        let letter = dead.next().await.context("no dead letter")??;
        drop(stop);
        anyhow::Ok(letter)
    };
    let ((), letter) = tokio::join!(rig.take_all(&shop.inbox, async { drop(stopped.await) }), watching);
    ensure!(letter?.data == b"{}", "another letter");
    Ok(())
}

/// A topic, and what became of a message.
type Told = (String, Delivery);

/// Runs a worker on the outbox until it was told enough.
async fn send_until(shop: &Shop, rig: &RabbitMq, is_enough: impl Fn(&[Told]) -> bool) -> anyhow::Result<Vec<Told>> {
    let (sending, mut told) = shop.outbox_worker(rig.transport());
    let (stop, stopped) = oneshot::channel::<()>();
    let watching = async {
        let mut deliveries = Vec::new();
        while !is_enough(&deliveries) {
            deliveries.push(next(&mut told).await?);
        }
        drop(stop);
        anyhow::Ok(deliveries)
    };
    let (sent, deliveries) = tokio::join!(sending.run(async { drop(stopped.await) }), watching);
    sent?;
    deliveries
}
