//! NATS, and what is its own: the stream's memory for ids, subjects, messages that are brought no more.

use std::time::Duration;

use anyhow::{Context, ensure};
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::{self, stream};
use async_nats::{ConnectOptions, HeaderMap};
use futures_util::StreamExt;
use libtest_mimic::Trial;
use postroom::queue::Cause;
use postroom::worker::{Delivery, Transport};
use postroom::{Inbox, NewMessage};
use postroom_brokers::intake::{self, Arrived, Verdict};
use postroom_brokers::nats::{FromNats, ToNats};
use postroom_testbed::BrokerKind;
use tokio::sync::oneshot;

use crate::rig::{Raw, Rig, unique};
use crate::shop::{Shop, next};
use crate::trial;

const CONSUMER: &str = "shop";

/// A stream for everything that begins with its name.
pub(crate) struct Nats {
    client: async_nats::Client,
    name: String,
    stream: stream::Stream,
}

impl Nats {
    /// What nobody acknowledges is brought again after this time.
    async fn bring_again_after(&self, ack_wait: Duration) -> anyhow::Result<()> {
        let durable_name = Some(CONSUMER.to_owned());
        let config =
            pull::Config { durable_name, ack_policy: AckPolicy::Explicit, ack_wait, ..pull::Config::default() };
        self.stream.create_consumer(config).await?;
        Ok(())
    }

    async fn consumer(&self) -> anyhow::Result<PullConsumer> {
        self.stream.get_consumer(CONSUMER).await.map_err(|error| anyhow::anyhow!(error))
    }
}

impl Rig for Nats {
    const KIND: BrokerKind = BrokerKind::Nats;

    async fn set_up(url: &str) -> anyhow::Result<Self> {
        let client = ConnectOptions::new().retry_on_initial_connect().connect(url).await?;
        let (name, context) = (unique(), jetstream::new(client.clone()));
        let subjects = vec![format!("{name}.>")];
        let config = stream::Config { name: name.clone(), subjects, ..stream::Config::default() };
        let stream = context.create_stream(config).await?;
        let rig = Self { client, name, stream };
        rig.bring_again_after(Duration::from_secs(30)).await?;
        Ok(rig)
    }

    fn destination(&self) -> String {
        self.name.clone()
    }

    fn transport(&self) -> impl Transport {
        ToNats::new(self.client.clone())
    }

    async fn take_all(&self, inbox: &Inbox, shutdown: impl Future<Output = ()> + Send) {
        let (stream, consumer) = (self.name.clone(), CONSUMER.to_owned());
        let from = FromNats { client: self.client.clone(), stream, consumer, source: "nats".into(), prefetch: 16 };
        from.run(inbox, shutdown).await;
    }

    async fn put(&self, raw: Raw<'_>) -> anyhow::Result<()> {
        let mut headers = HeaderMap::new();
        headers.insert("Postroom-Topic", "order.placed");
        if let Some(id) = raw.id {
            headers.insert("Nats-Msg-Id", id);
        }
        let (subject, payload) = (format!("{}.outside", self.name), raw.payload.to_vec().into());
        jetstream::new(self.client.clone()).publish_with_headers(subject, headers, payload).await?.await?;
        Ok(())
    }

    fn bad_id() -> String {
        "x".repeat(256)
    }

    async fn take_one_and_die(&self, inbox: &Inbox) -> anyhow::Result<()> {
        // No test waits for half a minute.
        self.bring_again_after(Duration::from_secs(1)).await?;
        let mut brought = self.consumer().await?.fetch().max_messages(1).messages().await?;
        let one = brought.next().await.context("nothing came")?.map_err(|error| anyhow::anyhow!(error))?;
        let id = one.headers.as_ref().and_then(|headers| headers.get("Nats-Msg-Id"));
        let (id, topic, headers) =
            (id.map(async_nats::HeaderValue::as_str), "order.placed", postroom::message::Headers::new());
        let arrived = Arrived { id, topic, payload: &one.payload, headers, correlation_id: None };
        ensure!(intake::take(inbox, "nats", arrived).await == Verdict::Stored, "it was not stored");
        Ok(())
    }

    async fn was_taken(&self) -> anyhow::Result<bool> {
        Ok(self.consumer().await?.info().await?.delivered.consumer_sequence > 0)
    }

    async fn left(&self) -> anyhow::Result<u64> {
        let mut consumer = self.consumer().await?;
        let info = consumer.info().await?;
        Ok(info.num_pending + u64::try_from(info.num_ack_pending)?)
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_published_message_has_all_its_headers", has_all_its_headers),
        trial("a_message_sent_again_is_in_the_stream_once", is_in_the_stream_once),
        trial("what_no_stream_holds_is_no_route", no_stream),
        trial("a_name_that_is_no_subject_is_refused", no_subject),
        trial("poison_stays_in_the_stream", poison_stays_in_the_stream),
    ]
}

async fn has_all_its_headers(rig: Nats) -> anyhow::Result<()> {
    let shop = Shop::open().await?;
    let message = NewMessage::new("order.placed", "'7' 🦀").to(&rig.name).correlation_id("basket-7");
    let message = message.header("tenant", "blue");
    let id = message.work_item_id();
    shop.outbox.enqueue(message).await?;
    ensure!(send_one(&shop, &rig).await? == Delivery::Accepted { response: None }, "it was not accepted");

    let stored = rig.stream.get_last_raw_message_by_subject(&format!("{}.order.placed", rig.name)).await?;
    ensure!(stored.payload == "'7' 🦀".as_bytes(), "another payload");
    let header = |name: &str| stored.headers.get(name).map(|value| value.as_str().to_owned());
    ensure!(header("Nats-Msg-Id") == Some(id.to_string()), "another id");
    ensure!(header("Postroom-Topic").as_deref() == Some("order.placed"), "another topic");
    ensure!(header("Postroom-Correlation-Id").as_deref() == Some("basket-7"), "another correlation id");
    ensure!(header("tenant").as_deref() == Some("blue"), "another header");
    Ok(())
}

/// As it would be if the answer to the first one were lost.
async fn is_in_the_stream_once(mut rig: Nats) -> anyhow::Result<()> {
    let shop = Shop::open().await?;
    shop.outbox.enqueue(NewMessage::new("order.placed", "{}").to(&rig.name)).await?;
    send_one(&shop, &rig).await?;
    let redriven = shop.outbox.redrive(postroom::operator::Filter::default(), None).await?;
    ensure!(redriven == 1, "it was not put back in line");
    ensure!(send_one(&shop, &rig).await? == Delivery::Accepted { response: None }, "it was not accepted");
    ensure!(rig.stream.info().await?.state.messages == 1, "it is in the stream twice");
    Ok(())
}

async fn no_stream(rig: Nats) -> anyhow::Result<()> {
    let shop = Shop::open().await?;
    shop.outbox.enqueue(NewMessage::new("order.placed", "{}").to(unique())).await?;
    let fault = send_one(&shop, &rig).await?;
    ensure!(fault.fault().is_some_and(|fault| fault.cause() == Cause::NoRoute), "it has a route");
    Ok(())
}

async fn no_subject(rig: Nats) -> anyhow::Result<()> {
    for topic in ["order placed", "order.*", "order..placed", ">"] {
        let shop = Shop::open().await?;
        shop.outbox.enqueue(NewMessage::new(topic, "{}").to(&rig.name)).await?;
        let refused = send_one(&shop, &rig).await?;
        ensure!(refused.fault().is_some_and(postroom::queue::Fault::is_final), "{topic} is a subject");
    }
    Ok(())
}

async fn poison_stays_in_the_stream(mut rig: Nats) -> anyhow::Result<()> {
    rig.put(Raw { id: None, payload: b"{}" }).await?;
    let shop = Shop::open().await?;
    let (stop, stopped) = oneshot::channel::<()>();
    let mut advisories = rig.client.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>").await?;
    let watching = async {
        let advisory = advisories.next().await.context("no advisory")?;
        drop(stop);
        anyhow::Ok(advisory)
    };
    let ((), told) = tokio::join!(rig.take_all(&shop.inbox, async { drop(stopped.await) }), watching);
    told?;
    ensure!(rig.stream.info().await?.state.messages == 1, "it is gone");
    Ok(())
}

/// Runs a worker on the outbox until it was told one fate.
async fn send_one(shop: &Shop, rig: &Nats) -> anyhow::Result<Delivery> {
    let (sending, mut told) = shop.outbox_worker(rig.transport());
    let (stop, stopped) = oneshot::channel::<()>();
    let watching = async {
        let delivery = next(&mut told).await;
        drop(stop);
        delivery
    };
    let (sent, told) = tokio::join!(sending.run(async { drop(stopped.await) }), watching);
    sent?;
    Ok(told?.1)
}
