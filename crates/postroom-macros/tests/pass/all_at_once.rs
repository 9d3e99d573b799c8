//! Everything the macros take, in one program.

use postroom::handler::{Backend, State};
use postroom::store::Memory;
use postroom::{
    Command, Ctx, Event, HandlerError, HandlerResult, Handlers, Payload, RetryPolicy, Signal, push_call, service,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event("order.placed", lane = "{0}")]
struct OrderPlaced(u64);

#[derive(Serialize, Deserialize, Signal)]
#[signal("order.approved")]
struct OrderApprovedV1 {
    order: u64,
}

#[derive(Serialize, Deserialize, Signal)]
#[signal("order.approved", version = 2, upcast_from = OrderApprovedV1, lane = "order-{order}")]
struct OrderApproved {
    order: u64,
    by: String,
    parts: Vec<OrderApproved>,
    previous: Option<Box<OrderApproved>>,
}

impl From<OrderApprovedV1> for OrderApproved {
    fn from(old: OrderApprovedV1) -> Self {
        Self { order: old.order, by: "unknown".into(), parts: Vec::new(), previous: None }
    }
}

#[derive(Serialize, Deserialize, Command)]
#[command("stock.change", reply = u64, lane = "stock")]
enum ChangeStock {
    Add { item: String },
    Clear,
}

async fn placed(_: &mut Ctx<Memory>, _: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

async fn approved<B: Backend>(_: &mut Ctx<B>, _: OrderApproved) -> Result<(), HandlerError> {
    Ok(())
}

async fn change(_: &mut Ctx<Memory>, change: ChangeStock) -> Result<u64, HandlerError> {
    Ok(match change {
        ChangeStock::Add { item } => item.len() as u64,
        ChangeStock::Clear => 0,
    })
}

/// Sends a letter.
#[push_call("mail.send")]
pub(crate) async fn send_mail(
    _ctx: &mut Ctx<Memory>,
    to: String,
    #[serde(default)] subject: String,
) -> HandlerResult<()> {
    println!("{to}: {subject}");
    Ok(())
}

#[push_call("cache.clear", name = ClearCache, lane = "cache")]
async fn clear(key: Option<String>) -> std::io::Result<()> {
    println!("{key:?}");
    Ok(())
}

#[push_call("forward")]
async fn forward<B: Backend>(ctx: &mut Ctx<B>, order: u64) -> Result<u64, HandlerError> {
    ctx.enqueue(&OrderPlaced(order)).await?;
    Ok(order)
}

/// With a value of the worker's beside what travels.
#[push_call("tell")]
async fn tell(from: State<String>, to: String, _: State<Mailer>) -> HandlerResult<()> {
    println!("{from} to {to}");
    Ok(())
}

async fn blocking(_: &mut Ctx<Memory>, _: Tuned) -> HandlerResult<()> {
    Ok(())
}

#[derive(Serialize, Deserialize, Event)]
#[event("tuned")]
struct Tuned {}

struct Mailer;

#[push_call]
impl Mailer {
    #[push_call("mailer.greet")]
    async fn greet(&self, _: &mut Ctx<Memory>, name: String) -> Result<usize, HandlerError> {
        Ok(name.len())
    }

    #[push_call("mailer.stop", name = StopMailer)]
    async fn stop(&self) -> Result<(), HandlerError> {
        Ok(())
    }

    #[push_call("mailer.sign", name = Sign)]
    async fn sign(&self, name: State<String>) -> HandlerResult<String> {
        Ok(name.to_string())
    }
}

service! {
    /// All of it.
    #[allow(clippy::all)]
    pub(crate) struct Everything for "every-thing.2" on Memory;

    source "orders" { secret: env("SHOP_SECRET") }
    source "billing" { secret: [file("/run/secrets/new") as "2026-11", env("OLD") as "2026-10"], }
    source "own" { secret: keys(own_keys()) }
    handle OrderPlaced => placed;
    handle OrderApproved => approved;
    handle ChangeStock => change;
    call SendMail;
    call ClearCache;
    call Forward;
    call Tell { concurrency: 1, }
    handle Tuned => blocking { retry: RetryPolicy::handlers().attempts(3), concurrency: 1 + 1 }
    destination next { url: "in-process", sends: [OrderApproved] }
    destination after_next {
        name: "after-next",
        url: env("NEXT_URL", "http://127.0.0.1:7002"),
        secret: file("/run/secrets/next"),
        sends: [ChangeStock, OrderApproved, Forward],
    }
}

fn own_keys() -> postroom::services::Key {
    use postroom::services::{Key, Secret};
    Key::new("1", Secret::parse("long enough to be a secret in a test").unwrap()).unwrap()
}

pub(crate) fn main() {
    assert_eq!((SendMail::TOPIC, SendMail::KIND), ("mail.send", postroom::message::Kind::PushCall));
    let old = OrderApproved::read(1, r#"{"order":7}"#).unwrap();
    assert_eq!((old.order, old.by.as_str()), (7, "unknown"));
    assert!(SendMail::read(1, r#"{"to":"ann"}"#).is_ok_and(|call| call.subject.is_empty()));
    assert_eq!(old.lane().as_deref(), Some("order-7"));
    assert_eq!(OrderPlaced(8).lane().as_deref(), Some("8"));
    assert_eq!(ChangeStock::Clear.lane().as_deref(), Some("stock"));
    assert_eq!(ClearCache { key: None }.lane().as_deref(), Some("cache"));
    assert_eq!(Forward { order: 9 }.lane(), None);
    let message = Everything::to_after_next(&ChangeStock::Clear).correlation_id("a").message().unwrap();
    assert_eq!(message.topic(), "stock.change");
    let _ = Handlers::<Memory>::new().calls(std::sync::Arc::new(Mailer));
    let _ = (
        Greet { name: String::new() },
        StopMailer {},
        Sign {},
        Tell { to: String::new() },
        Tuned {},
        ChangeStock::Add { item: String::new() },
    );
}
