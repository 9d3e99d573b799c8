//! The transports between two services, seen alike: where a receiver listens, and how it is spoken to.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use postroom::handler::Backend;
use postroom::services::{
    ClientTls, Courier, Key, ListenOptions, Listener, Neighbours, Receiver, ReceiverOptions, Service, Source,
    TlsIdentity,
};
use postroom::sqlite::Sqlite;
use postroom::worker::Places;
use postroom_testbed::{Certificate, FaultProxy};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::harness::{Place, Stage, eventually};
use crate::pair;
use crate::peer;
use crate::script::{Running, Script};
use crate::services::asynchronous;

/// A transport.
pub trait Line: Send + Sync + 'static {
    /// Where a receiver may listen; port 0 is any that is free.
    fn address(place: &Place) -> String;

    /// How it is spoken to.
    fn service(service: Service) -> Service {
        service
    }
}

/// HTTP/1.1.
#[derive(Debug)]
pub struct Http;
/// HTTP/2 in the open.
#[derive(Debug)]
pub struct Http2;
/// HTTP by TLS.
#[derive(Debug)]
pub struct Https;
/// gRPC.
#[derive(Debug)]
pub struct Grpc;
/// gRPC by TLS.
#[derive(Debug)]
pub struct Grpcs;
/// gRPC by its other name.
#[derive(Debug)]
pub struct GrpcNamed;
/// HTTP on a Unix socket.
#[derive(Debug)]
pub struct Unix;
/// HTTP on a named pipe.
#[derive(Debug)]
pub struct Pipe;
/// No wire at all.
#[derive(Debug)]
pub struct InProcess;

impl Line for Http {
    fn address(_: &Place) -> String {
        "http://127.0.0.1:0".into()
    }
}

impl Line for Http2 {
    fn address(_: &Place) -> String {
        "http://127.0.0.1:0".into()
    }

    fn service(service: Service) -> Service {
        service.http2()
    }
}

impl Line for Https {
    fn address(_: &Place) -> String {
        "https://localhost:0".into()
    }
}

impl Line for Grpc {
    fn address(_: &Place) -> String {
        "grpc://127.0.0.1:0".into()
    }
}

impl Line for Grpcs {
    fn address(_: &Place) -> String {
        "grpcs://localhost:0".into()
    }
}

impl Line for GrpcNamed {
    fn address(_: &Place) -> String {
        "grpc://127.0.0.1:0/RFReceiver/Receive".into()
    }
}

impl Line for Unix {
    fn address(place: &Place) -> String {
        format!("unix://{}", place.path("sockets/in.sock").display())
    }
}

impl Line for Pipe {
    fn address(place: &Place) -> String {
        format!("pipe://{}", place.own_name())
    }
}

impl Line for InProcess {
    fn address(_: &Place) -> String {
        "in-process".into()
    }
}

/// Where a receiver can be reached, whether one is there or not.
#[derive(Debug)]
pub struct Office {
    address: String,
    neighbours: Neighbours,
    certificate: Option<Certificate>,
    serving: JoinSet<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl Office {
    /// A place to listen at. Nobody does yet.
    pub async fn at(address: String, place: &Place) -> anyhow::Result<Self> {
        let is_secure = address.starts_with("https") || address.starts_with("grpcs");
        let certificate = if is_secure { Some(Certificate::issue(place.path("").as_path())?) } else { None };
        let (neighbours, serving) = (Neighbours::default(), JoinSet::new());
        let mut office = Self { address, neighbours, certificate, serving, stop: None };
        if let Some((start, path)) = office.address.split_once(":0") {
            let port = office.bind().await?.tcp_address().context("it has no port")?.port();
            office.address = format!("{start}:{port}{path}");
        }
        Ok(office)
    }

    /// Where it is.
    pub fn address(&self) -> &str {
        &self.address
    }

    async fn bind(&self) -> anyhow::Result<Listener> {
        let options = ListenOptions::default();
        let options = match &self.certificate {
            Some(with) => options.tls(TlsIdentity::new(&with.certificate, &with.key)?),
            None => options,
        };
        Ok(Listener::bind(&self.address, options).await?)
    }

    /// A receiver is there from now on.
    pub async fn open<B: Backend>(&mut self, receiver: Receiver<B>) -> anyhow::Result<()> {
        if self.address == "in-process" {
            self.neighbours.add(receiver);
            return Ok(());
        }
        let listener = self.bind().await?;
        let (stop, stopped) = oneshot::channel::<()>();
        self.serving.spawn(async move { receiver.serve(listener, async { drop(stopped.await) }).await });
        self.stop = Some(stop);
        Ok(())
    }

    /// It takes nothing new; what has come in is answered.
    pub fn shut_down(&mut self) {
        self.neighbours.remove("inventory");
        self.stop = None;
    }

    /// Nobody is there any more.
    pub async fn close(&mut self) -> anyhow::Result<()> {
        self.shut_down();
        while let Some(ended) = self.serving.join_next().await {
            ended?;
        }
        Ok(())
    }

    /// A proxy before it, where it listens on TCP.
    pub fn proxy(&self) -> anyhow::Result<FaultProxy> {
        let target: SocketAddr = self.address.trim_start_matches("http://").parse()?;
        FaultProxy::start(target)
    }

    /// As a service that messages go to.
    pub fn service(&self, name: &str) -> anyhow::Result<Service> {
        let service = Service::new(name, &self.address).keys(peer::key()?);
        Ok(match &self.certificate {
            Some(with) => service.tls(ClientTls::default().root_certificates(with.authority.clone())?),
            None => service,
        })
    }
}

impl Wired<'_, Http> {
    /// `orders` sends through a proxy, and waits this long for an answer.
    pub fn send_through_proxy(&self, timeout: Duration) -> anyhow::Result<(FaultProxy, Running)> {
        let proxy = self.office.proxy()?;
        let service = Service::new("inventory", proxy.url()).keys(peer::key()?).timeout(timeout);
        Ok((proxy, pair::sender(self.orders, pair::courier(self.orders, service)?)))
    }
}

/// Two services with a line between them: `orders` on the case's own store, and `inventory` on another.
#[derive(Debug)]
pub struct Wired<'s, L: Line> {
    /// The store of `orders`.
    pub orders: &'s Stage<Sqlite>,
    /// The store of `inventory`.
    pub inventory: Stage<Sqlite>,
    /// Where `inventory` listens.
    pub office: Office,
    line: PhantomData<L>,
}

impl<'s, L: Line> Wired<'s, L> {
    /// Nobody listens yet, and nobody sends.
    pub async fn new(orders: &'s Stage<Sqlite>) -> anyhow::Result<Self> {
        let inventory = orders.another("inventory").await?;
        let office = Office::at(L::address(&inventory.place), &inventory.place).await?;
        Ok(Self { orders, inventory, office, line: PhantomData })
    }

    /// `inventory` receives, and plays a script.
    pub async fn receive(&mut self, script: &Script, options: ReceiverOptions) -> anyhow::Result<()> {
        let handlers = asynchronous::<Sqlite>(script);
        self.office.open(pair::receiver(&self.inventory, "inventory", "orders", handlers, options)?).await
    }

    /// The same, with this key for `orders`.
    pub async fn receive_by(&mut self, key: Key, script: &Script) -> anyhow::Result<()> {
        let (store, handlers) = (self.inventory.store.clone(), asynchronous::<Sqlite>(script));
        self.office.open(Receiver::new("inventory", store, handlers, [Source::new("orders", key)])?).await
    }

    /// `orders` sends to the given service.
    pub fn send(&self, tune: impl FnOnce(Service) -> Service) -> anyhow::Result<(Places, Running)> {
        let service = tune(L::service(self.office.service("inventory")?));
        let services = pair::services(self.orders, "orders", service);
        let courier = Courier::with_neighbours(services, self.office.neighbours.clone())?;
        let places = Places::default();
        Ok((places.clone(), pair::sender_with(self.orders, courier, places)))
    }

    /// Waits until the outbox of `orders` is as it should be; pauses between attempts are skipped.
    pub async fn until(
        &self,
        what: &str,
        is_so: impl Fn(postroom::operator::QueueStats) -> bool,
    ) -> anyhow::Result<()> {
        let (orders, is_so) = (self.orders, &is_so);
        eventually(what, || async move {
            orders.skip_pause(postroom::queue::Queue::Outbox).await?;
            Ok(is_so(orders.outbox.queue().stats().await?))
        })
        .await
    }

    /// Stops everything.
    pub async fn end(mut self, worker: Running) -> anyhow::Result<()> {
        worker.stop().await?;
        self.office.close().await?;
        self.inventory.close().await;
        Ok(())
    }
}
