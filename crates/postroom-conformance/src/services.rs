//! Services for tests: a receiver with a peer that knows its key.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use postroom::clock::Timestamp;
use postroom::mssql::Mssql;
use postroom::mysql::MySql;
use postroom::operator::{Filter, Record};
use postroom::postgres::Postgres;
use postroom::services::{HttpService, Receiver, ReceiverOptions, Source};
use postroom::sqlite::{BlockingCtx, Sqlite};
use postroom::store::Memory;
use postroom::{Ctx, Handlers, Message, NewMessage};
use std::sync::Arc;

use crate::harness::{Harness, Stage, Testable};
use crate::peer::{self, Letter, Peer, Said};
use crate::script::{self, Answer, Script};

/// Messages that a handler enqueues stay ready.
const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);
const EFFECT: &str = "effect";
/// The topic that handlers are for.
pub const TOPIC: &str = "stock.reserve";

/// A way to run a script as the handler of [`TOPIC`], with an effect in its transaction.
pub type Way<B> = fn(&Script) -> Handlers<B>;

/// A backend that can receive.
pub trait Receives: Testable {
    /// Every kind of handler it has.
    const WAYS: &'static [Way<Self>] = &[asynchronous::<Self>];
}

impl Receives for Memory {}
impl Receives for Postgres {}
impl Receives for MySql {}
impl Receives for Mssql {}
impl Receives for Sqlite {
    const WAYS: &'static [Way<Self>] = &[asynchronous::<Self>, blocking];
}

fn effect(message: &Message) -> NewMessage {
    NewMessage::new(EFFECT, message.id()).due_at(NEVER)
}

/// An async handler.
pub fn asynchronous<B: Testable>(script: &Script) -> Handlers<B> {
    Handlers::new().state(script.clone()).on_topic(TOPIC, have_an_effect::<B>)
}

async fn have_an_effect<B: Testable>(ctx: &mut Ctx<B>, message: Arc<Message>) -> Answer {
    ctx.enqueue(effect(&message)).await?;
    script::play(ctx, message).await
}

/// A handler on the writer's own thread.
pub fn blocking(script: &Script) -> Handlers<Sqlite> {
    Handlers::new().state(script.clone()).on_topic_blocking(TOPIC, have_an_effect_blocking)
}

fn have_an_effect_blocking(ctx: &mut BlockingCtx<'_>) -> Answer {
    ctx.enqueue(effect(ctx.message()))?;
    script::play_blocking(ctx)
}

impl Harness {
    /// The messages that had an effect, each as often as it had one.
    pub async fn effects_of_messages(&self) -> anyhow::Result<Vec<String>> {
        let effects = self.outbox.queue().list(Filter::all().topic(EFFECT)).await?;
        effects.iter().map(|record| Ok(crate::harness::readable(record)?.payload.clone())).collect()
    }
}

/// A receiver, and a peer that writes to it.
#[derive(Debug)]
pub struct Desk<B: Testable> {
    /// The peer.
    pub peer: Peer,
    /// The receiver.
    pub receiver: Receiver<B>,
}

impl<B: Testable> Clone for Desk<B> {
    fn clone(&self) -> Self {
        Self { peer: self.peer.clone(), receiver: self.receiver.clone() }
    }
}

impl<B: Testable> Desk<B> {
    /// A receiver on this store.
    pub fn open(store: B::Store, peer: Peer, handlers: Handlers<B>, options: ReceiverOptions) -> anyhow::Result<Self> {
        let source = Source::new(&peer.source, peer::key()?);
        let receiver = Receiver::with(&peer.destination, store, handlers, [source], options)?;
        Ok(Self { peer, receiver })
    }

    /// The receiver as a service.
    pub fn service(&self) -> HttpService<B> {
        self.receiver.service()
    }

    /// Sends a letter.
    pub async fn send(&self, letter: &Letter) -> anyhow::Result<Said> {
        let request = self.peer.request(letter)?;
        let head = request.headers().clone();
        let said = self.ask(request).await?;
        anyhow::ensure!(self.peer.is_receipt(&head, &said)?, "no receipt: {said:?}");
        Ok(said)
    }

    /// Sends a request of the case's own making.
    pub async fn ask(&self, request: Request<Full<Bytes>>) -> anyhow::Result<Said> {
        peer::ask(&self.service(), request).await
    }
}

impl<B: Testable> Stage<B> {
    /// A receiver on this store.
    pub fn desk(&self, handlers: Handlers<B>, options: ReceiverOptions) -> anyhow::Result<Desk<B>> {
        Desk::open(self.store.clone(), Peer::new(self.clock.clone()), handlers, options)
    }

    /// A receiver that plays a script for [`TOPIC`].
    pub fn desk_playing(&self, way: Way<B>, script: &Script) -> anyhow::Result<Desk<B>> {
        self.desk(way(script), ReceiverOptions::default())
    }

    /// What the inbox knows of a letter.
    pub async fn row(&self, desk: &Desk<B>, letter: &Letter) -> anyhow::Result<Option<Record>> {
        Ok(self.inbox.get(&desk.peer.key_of(letter)?).await?)
    }
}
