//! Servers that take no writes for a while, or for good because another one has taken over. No message is to blame, and
//! no worker has to be started again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postroom::clock::Clock;
use postroom::mysql::{MySql, MySqlStore};
use postroom::operator::Filter;
use postroom::postgres::{Postgres, PostgresStore};
use postroom::queue::State;
use postroom::{Ctx, ErrorKind, HandlerResult, Handlers, Inbox, Message, NewMessage, Outbox, Worker, WorkerOptions};
use postroom_testbed::{Mode, Server};
use sqlx::{MySqlConnection, PgConnection};
use tokio::sync::Barrier;

use crate::by_wire::{ByWire, say};
use crate::case::{Verdict, cases};
use crate::harness::{Draft, Place, Stage, eventually};
use crate::on_server::{PASSWORD, Startable};
use crate::script::Running;
use crate::servers::{self, Client};

cases! { failover:
    started a_server_that_is_read_only_for_a_while_spends_no_attempt [];
    started connections_to_a_server_that_was_replaced_are_not_kept [];
    started a_server_that_is_restarted_spends_no_attempt [];
    postgres a_standby_that_is_reached_for_a_while_spends_no_attempt [];
}

/// A server that can refuse writes while its connections stay.
trait Demotable: Startable + ByWire {
    const DEMOTE: &'static [&'static str];
    const PROMOTE: &'static [&'static str];
    /// Said in a transaction that is open, after which it takes no writes either.
    const INSIDE: &'static str;
    /// The name of its socket in a folder.
    const SOCKET: &'static str;

    /// How a program reaches the server through the socket in this folder, as a user without special rights.
    fn url_in(folder: &Path, place: &Place) -> String;

    /// What the case's store needs to be there.
    fn prepare(server: &str, place: &Place) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Opens the case's store with the server's own clock.
    fn open_at(place: &Place, url: &str) -> impl Future<Output = postroom::Result<Self::Store>> + Send;
}

async fn tell<B: Demotable>(server: &str, words: &[&str]) -> anyhow::Result<()> {
    for words in words {
        servers::run::<B::Client>(server, words).await?;
    }
    Ok(())
}

impl Demotable for Postgres {
    const DEMOTE: &'static [&'static str] =
        &["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"];
    const PROMOTE: &'static [&'static str] =
        &["ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"];
    const INSIDE: &'static str = "SET TRANSACTION READ ONLY";
    const SOCKET: &'static str = ".s.PGSQL.5432";

    fn url_in(folder: &Path, _: &Place) -> String {
        format!("postgres:///postgres?host={}&port=5432&user=postgres", folder.display())
    }

    async fn prepare(_: &str, _: &Place) -> anyhow::Result<()> {
        Ok(())
    }

    async fn open_at(place: &Place, url: &str) -> postroom::Result<PostgresStore> {
        place.postgres_options_at(url)?.clock(Clock::Database).open().await
    }
}

impl Demotable for MySql {
    const DEMOTE: &'static [&'static str] = &["SET GLOBAL read_only = 1"];
    const PROMOTE: &'static [&'static str] = &["SET GLOBAL read_only = 0"];
    const INSIDE: &'static str = "SELECT 1";
    const SOCKET: &'static str = "mysql.sock";

    fn url_in(folder: &Path, place: &Place) -> String {
        let (name, socket) = (place.own_name(), folder.join(Self::SOCKET));
        format!("mysql://app:{PASSWORD}@localhost/{name}?socket={}", socket.display())
    }

    async fn prepare(server: &str, place: &Place) -> anyhow::Result<()> {
        let name = place.own_name();
        let words = [
            format!("CREATE DATABASE {name}"),
            format!("CREATE USER app@localhost IDENTIFIED BY '{PASSWORD}'"),
            format!("GRANT ALL ON {name}.* TO app@localhost"),
        ];
        servers::run::<MySqlConnection>(server, &words.join("; ")).await
    }

    async fn open_at(place: &Place, url: &str) -> postroom::Result<MySqlStore> {
        place.mysql_options_at(url)?.clock(Clock::Database).open().await
    }
}

/// An address that leads to one server after the other, as a name or a virtual address does.
struct Address {
    folder: tempfile::TempDir,
    socket: &'static str,
}

impl Address {
    fn of<B: Demotable>(server: &Server) -> anyhow::Result<Self> {
        let address = Self { folder: tempfile::Builder::new().prefix("pr-").tempdir()?, socket: B::SOCKET };
        address.leads_to(server)?;
        Ok(address)
    }

    fn leads_to(&self, server: &Server) -> anyhow::Result<()> {
        let (new, link) = (self.folder.path().join("new"), self.folder.path().join(self.socket));
        std::os::unix::fs::symlink(server.socket(), &new)?;
        Ok(std::fs::rename(new, link)?)
    }
}

struct Shared {
    effects: String,
    refused: AtomicU32,
    /// The first handler has begun its transaction, and may go on.
    met: Barrier,
    calls: AtomicU32,
    inside: &'static str,
}

impl Shared {
    /// With a table for effects on that server.
    async fn on<B: Demotable>(server: &str, place: &Place) -> anyhow::Result<Arc<Self>> {
        let effects = format!("{}.effects", place.own_name());
        let create = format!("CREATE TABLE {effects} (message VARCHAR(36) NOT NULL)");
        servers::run::<B::Client>(server, &create).await?;
        let (refused, calls) = (AtomicU32::new(0), AtomicU32::new(0));
        Ok(Arc::new(Self { effects, refused, met: Barrier::new(2), calls, inside: B::INSIDE }))
    }
}

/// Leaves an effect. The first one that is called finds that its transaction takes no writes any more.
async fn effect<B: ByWire>(ctx: &mut Ctx<B>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let shared = ctx.state::<Arc<Shared>>()?;
    let note = format!("INSERT INTO {} (message) VALUES ('{}')", shared.effects, message.id());
    if shared.calls.fetch_add(1, Ordering::SeqCst) == 0 {
        say(ctx, "SELECT 1").await?;
        shared.met.wait().await;
        shared.met.wait().await;
        say(ctx, shared.inside).await?;
    }
    let noted = say(ctx, &note).await;
    shared.refused.fetch_add(u32::from(noted.is_err()), Ordering::SeqCst);
    noted.map(|()| None)
}

fn worker<B: Demotable>(store: B::Store, shared: &Arc<Shared>) -> Running {
    let handlers = Handlers::new().state(shared.clone()).on_topic("a", effect::<B>);
    let options = WorkerOptions::default().poll(Duration::from_millis(5)).poll_max(Duration::from_millis(50));
    Running::start(Worker::<B>::inbox(store, handlers).options(options))
}

const MESSAGES: usize = 200;

async fn all_arrive(inbox: &Inbox) -> anyhow::Result<()> {
    for _ in 0..MESSAGES {
        inbox.accept(Draft::new("a").max_attempts(1).incoming()?).await?;
    }
    Ok(())
}

/// Everything is done, once, and nothing of it spent an attempt.
async fn all_are_done<B: Demotable>(server: &str, inbox: &Inbox, shared: &Shared) -> Verdict {
    eventually("everything is done", || async {
        let stats = inbox.queue().stats().await?;
        Ok(stats.ready + stats.leased == 0)
    })
    .await?;
    let records = inbox.queue().list(Filter::all()).await?;
    assert_eq!(records.len(), MESSAGES);
    for record in records {
        let found = (record.state(), record.attempts(), record.crashes());
        assert_eq!(found, (State::Done, 0, 0), "{:?}", record.last_error());
    }
    let count = format!("SELECT concat(count(*), '') FROM {}", shared.effects);
    let effects = B::Client::reach(server).await?.ask(&count).await?.concat().concat();
    assert_eq!(effects, MESSAGES.to_string());
    Ok(())
}

async fn is_refused(outbox: &Outbox) -> Verdict {
    eventually("an enqueue is refused", || async {
        match outbox.enqueue(NewMessage::new("never", "")).await {
            Ok(_) => Ok(false),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                Ok(true)
            }
        }
    })
    .await
}

async fn a_server_that_is_read_only_for_a_while_spends_no_attempt<B: Demotable>(stage: &Stage<B>) -> Verdict {
    let server = Server::start(B::ENGINE, Mode::Fast)?;
    B::prepare(&server.url(), &stage.place).await?;
    let address = Address::of::<B>(&server)?;
    let store = B::open_at(&stage.place, &B::url_in(address.folder.path(), &stage.place)).await?;
    let shared = Shared::on::<B>(&server.url(), &stage.place).await?;
    let (outbox, inbox) = (Outbox::new(store.clone()), Inbox::new(store.clone()));
    all_arrive(&inbox).await?;
    let worker = worker::<B>(store, &shared);
    shared.met.wait().await;
    tell::<B>(&server.url(), B::DEMOTE).await?;
    is_refused(&outbox).await?;
    shared.met.wait().await;
    eventually("a handler was refused", || async { Ok(shared.refused.load(Ordering::SeqCst) > 0) }).await?;
    is_refused(&outbox).await?;
    tell::<B>(&server.url(), B::PROMOTE).await?;
    // Its connections were opened to a server that took no writes then.
    eventually("an enqueue is stored", || async { Ok(outbox.enqueue(NewMessage::new("late", "")).await.is_ok()) })
        .await?;
    all_are_done::<B>(&server.url(), &inbox, &shared).await?;
    worker.stop().await?;
    Ok(())
}

async fn a_server_that_is_restarted_spends_no_attempt<B: Demotable>(stage: &Stage<B>) -> Verdict {
    let mut server = Server::start(B::ENGINE, Mode::Fast)?;
    B::prepare(&server.url(), &stage.place).await?;
    let address = Address::of::<B>(&server)?;
    let store = B::open_at(&stage.place, &B::url_in(address.folder.path(), &stage.place)).await?;
    let shared = Shared::on::<B>(&server.url(), &stage.place).await?;
    let (outbox, inbox) = (Outbox::new(store.clone()), Inbox::new(store.clone()));
    all_arrive(&inbox).await?;
    let worker = worker::<B>(store, &shared);
    shared.met.wait().await;
    server.kill()?;
    is_refused(&outbox).await?;
    shared.met.wait().await;
    eventually("a handler was refused", || async { Ok(shared.refused.load(Ordering::SeqCst) > 0) }).await?;
    for _ in 0..20 {
        is_refused(&outbox).await?;
    }
    server.restart()?;
    eventually("an enqueue is stored", || async { Ok(outbox.enqueue(NewMessage::new("late", "")).await.is_ok()) })
        .await?;
    all_are_done::<B>(&server.url(), &inbox, &shared).await?;
    worker.stop().await
}

async fn connections_to_a_server_that_was_replaced_are_not_kept<B: Demotable>(stage: &Stage<B>) -> Verdict {
    let (old, new) = (Server::start(B::ENGINE, Mode::Fast)?, Server::start(B::ENGINE, Mode::Fast)?);
    for server in [old.url(), new.url()] {
        B::prepare(&server, &stage.place).await?;
    }
    let address = Address::of::<B>(&new)?;
    let url = B::url_in(address.folder.path(), &stage.place);
    let at_new = Outbox::new(B::open_at(&stage.place, &url).await?);
    at_new.enqueue_many((0..5).map(|_| NewMessage::new("new", ""))).await?;
    address.leads_to(&old)?;
    let (writer, reader) = (B::open_at(&stage.place, &url).await?, B::open_at(&stage.place, &url).await?);
    let (writer, reader) = (Outbox::new(writer), Outbox::new(reader));
    assert_eq!(reader.queue().stats().await?.ready, 0);
    writer.enqueue(NewMessage::new("old", "")).await?;
    // It goes on answering on the connections that there are.
    tell::<B>(&old.url(), B::DEMOTE).await?;
    is_refused(&writer).await?;
    address.leads_to(&new)?;
    assert_eq!(reader.queue().stats().await?.ready, 5, "nobody reads from the old one");
    for _ in 0..10 {
        writer.enqueue(NewMessage::new("after", "")).await?;
    }
    assert_eq!(writer.queue().stats().await?.ready, 15);
    Ok(())
}

async fn a_standby_that_is_reached_for_a_while_spends_no_attempt(stage: &Stage<Postgres>) -> Verdict {
    let primary = Server::start(Postgres::ENGINE, Mode::Fast)?;
    let address = Address::of::<Postgres>(&primary)?;
    let store = Postgres::open_at(&stage.place, &Postgres::url_in(address.folder.path(), &stage.place)).await?;
    let shared = Shared::on::<Postgres>(&primary.url(), &stage.place).await?;
    let outbox = Outbox::new(store.clone());
    let at_primary = Inbox::new(Postgres::open_at(&stage.place, &primary.url()).await?);
    all_arrive(&at_primary).await?;
    let standby = primary.standby()?;
    let worker = worker::<Postgres>(store, &shared);
    shared.met.wait().await;
    address.leads_to(&standby)?;
    let end = "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity
               WHERE application_name = 'postroom' AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    PgConnection::reach(&primary.url()).await?.ask(end).await?;
    is_refused(&outbox).await?;
    shared.met.wait().await;
    // Often enough that every connection was asked for.
    for _ in 0..30 {
        is_refused(&outbox).await?;
    }
    address.leads_to(&primary)?;
    all_are_done::<Postgres>(&primary.url(), &at_primary, &shared).await?;
    worker.stop().await?;
    Ok(())
}
