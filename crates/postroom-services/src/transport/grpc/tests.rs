//! Tests gRPC from end to end on an in-memory store, with our own courier and with peers that follow only the
//! `.proto` file.

mod calls;
mod deliveries;
mod handmade;
mod statuses;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::receiver::{Receiver, ReceiverOptions, Source};
use crate::transport::http::{ListenOptions, Listener};
use crate::transport::{Courier, Service, Services};
use crate::wire::{Key, Secret};
use postroom_core::message::{Kind, Message, NewMessage};
use postroom_core::store::MemoryStore;
use postroom_core::support::clock::Clock;
use postroom_core::work::handler::{Ctx, HandlerError, HandlerResult, Handlers, Memory};

const SECRET: &str = "an example secret, long enough to be one";

fn key(secret: &str) -> Key {
    Key::new("2026-11", Secret::parse(secret).unwrap()).unwrap()
}

/// Collects the messages that the handlers got.
#[derive(Clone, Default)]
struct Handled(Arc<Mutex<Vec<Arc<Message>>>>);

impl Handled {
    fn messages(&self) -> Vec<Arc<Message>> {
        self.0.lock().unwrap().clone()
    }
}

async fn handle(ctx: &mut Ctx<Memory>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let handled = ctx.state::<Handled>()?;
    handled.0.lock().unwrap().push(message.clone());
    match message.topic.as_str() {
        "refused" => Err(HandlerError::terminal("never")),
        "failing" => Err(HandlerError::retry("not now")),
        "later" => Err(HandlerError::retry_after(Duration::from_millis(6500), "not now")),
        _ => Ok(Some(format!(r#"{{"number": {}}}"#, handled.messages().len()))),
    }
}

/// Creates the receiver of `inventory`, which accepts messages from `orders`.
fn receiver(source: Source, options: ReceiverOptions) -> (Receiver<Memory>, Handled) {
    let handled = Handled::default();
    let handlers = Handlers::new().fallback(handle).state(handled.clone());
    (Receiver::with("inventory", MemoryStore::new(), handlers, [source], options).unwrap(), handled)
}

fn plain_receiver() -> (Receiver<Memory>, Handled) {
    receiver(Source::new("orders", key(SECRET)), ReceiverOptions::default())
}

/// A receiver on its own port, until it is dropped.
struct Listening {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinSet<()>,
}

impl Listening {
    async fn start(receiver: Receiver<Memory>) -> Self {
        let listener = Listener::bind("grpc://127.0.0.1:0", ListenOptions::default()).await.unwrap();
        let address = listener.tcp_address().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let mut serving = JoinSet::new();
        serving.spawn(async move { receiver.serve(listener, async { drop(stopped.await) }).await });
        Self { address, stop, serving }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.serving.join_all().await;
    }

    fn service(&self) -> Service {
        Service::new("inventory", format!("grpc://{}", self.address)).keys(key(SECRET))
    }

    /// Returns a courier from `orders` to this receiver.
    fn courier(&self) -> Courier {
        courier(self.service())
    }
}

fn courier(service: Service) -> Courier {
    Courier::new(Services::new("orders").service(service)).unwrap()
}

/// Creates a message in the outbox of `orders`.
fn message(topic: &str, payload: &str) -> Message {
    let new = NewMessage::new(topic, payload).kind(Kind::Command).to("inventory").correlation_id("order-7");
    let mut message = new.header("tenant", "acme").header("größe", "5 €").to_message(Clock::Database.now());
    message.attempts = 2;
    message
}
