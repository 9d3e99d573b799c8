//! Recovery of a damaged database file, with no message lost or handled twice.

use std::path::PathBuf;

use postroom::services::{Key, ListenOptions, Listener, Receiver, Secret, Source};
use postroom::sqlite::{BlockingCtx, SqliteOptions, SqliteStore};
use postroom::{HandlerError, Handlers};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::desk::{Desk, until};

/// Writes the effect in the same transaction as the ack.
fn reserve(ctx: &mut BlockingCtx<'_>) -> Result<Option<String>, HandlerError> {
    let id = ctx.message().id();
    ctx.tx().execute("INSERT INTO reserved (message_id) VALUES (?1)", [id])?;
    Ok(None)
}

/// A service with its own tables in the file.
struct Inventory {
    store: SqliteStore,
    stop: oneshot::Sender<()>,
    served: JoinSet<()>,
}

impl Inventory {
    async fn start(path: PathBuf, address: &str, secret: &str) -> Self {
        let store = SqliteOptions::new(path).deploy_schema(true).open().await.unwrap();
        let table = "CREATE TABLE IF NOT EXISTS reserved (message_id TEXT NOT NULL)";
        store.write(move |tx| Ok(tx.execute_batch(table)?)).await.unwrap();
        let source = Source::new("orders", Key::new("k", Secret::parse(secret).unwrap()).unwrap());
        let handlers = Handlers::new().on_topic_blocking("stock.reserve", reserve);
        let receiver = Receiver::new("inventory", store.clone(), handlers, [source]).unwrap();
        let listener = Listener::bind(address, ListenOptions::default()).await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let mut served = JoinSet::new();
        served.spawn(async move {
            receiver.serve(listener, async { _ = stopped.await }).await;
        });
        Self { store, stop, served }
    }

    /// The number of messages with an effect, and the number of effects.
    async fn effects(&self) -> (i64, i64) {
        let count = "SELECT count(DISTINCT message_id), count(*) FROM reserved";
        self.store.write(move |tx| Ok(tx.query_row(count, [], |row| Ok((row.get(0)?, row.get(1)?)))?)).await.unwrap()
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.served.join_all().await;
        self.store.close().await;
    }
}

/// The row of the failure table about a damaged file: restore the last backup, redrive on the sender.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_restored_and_redriven_with_nothing_lost_or_doubled() {
    let (orders, inventory) = (Desk::new(), Desk::new());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (address, secret) = (format!("http://127.0.0.1:{port}"), Secret::generate());
    orders.write("k.key", &secret);
    orders.write(
        "postroom.toml",
        &format!(
            "[node]\nname = \"orders\"\n[receiver]\nlisten = []\n\
             [services.inventory]\nurl = \"{address}\"\nkeys = {{ k = {{ file = \"k.key\" }} }}\n"
        ),
    );
    let send = |count: &str| orders.ok(&["send", "stock.reserve", "{}", "--to", "inventory", "--count", count]);
    let delivered = |count: u64| {
        tokio::task::block_in_place(|| until("they are delivered", || orders.outbox("done") == count));
    };
    let _up = orders.start(&["up"]);
    let service = Inventory::start(inventory.path("postroom.db"), &address, &secret).await;
    send("40");
    delivered(40);
    inventory.ok(&["backup", "copy.db"]);
    send("25");
    delivered(65);
    assert_eq!(service.effects().await, (65, 65));
    service.stop().await;

    std::fs::write(inventory.path("postroom.db"), "not a database any more".repeat(1000)).unwrap();
    // While it is down, the sender keeps sending.
    send("5");
    let restored = inventory.run(&["restore", "copy.db"]);
    assert_eq!(restored.code, Some(0), "{restored:?}");
    let service = Inventory::start(inventory.path("postroom.db"), &address, &secret).await;
    delivered(70);
    assert_eq!(service.effects().await, (45, 45), "what came after the backup is not in it");

    let advice = restored.stderr.lines().find_map(|line| line.trim().strip_prefix("postroom redrive ")).unwrap();
    let advice = advice.replace("THIS-SERVICE", "inventory");
    let args: Vec<_> = ["redrive"].into_iter().chain(advice.split(' ')).chain(["--yes", "--json"]).collect();
    let told: serde_json::Value = serde_json::from_str(&orders.ok(&args)).unwrap();
    // Messages before the backup are sent again too, because the sender's clock may differ.
    assert!(told["redriven"].as_u64().unwrap() >= 25, "{told}");
    delivered(70);
    assert_eq!(service.effects().await, (70, 70), "nothing is lost and nothing is doubled");
    service.stop().await;
}
