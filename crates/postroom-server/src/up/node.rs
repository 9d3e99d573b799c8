//! A node from start to stop: workers on both queues, the receiver, and the routes to other services.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use postroom::handler::Backend;
use postroom::queue::{Pull, Queue, Topics};
use postroom::services::{Courier, Listener, Neighbours, Receiver};
use postroom::store::Store;
use postroom::worker::Places;
use postroom::{Worker, WorkerOptions};

use super::backups::Backups;
use super::exec::Command;
use super::greeting;
use super::print::Printer;
use super::push::Routes;
use super::reload::{Replaceable, services};
use super::serve::{admin, listeners, receiver};
use super::signals::{HangUps, Signals, Stop, Stopped, stop};
use super::ways::Ways;
use super::work::{Work, handlers};
use crate::admin::{Counters, Parts, Watched, count_metrics};
use crate::config::{self, Config, EVERY, Opened};
use crate::database::Database;
use crate::duration;
use crate::problem::Problem;

/// Everything that a node starts with.
pub(crate) struct Node {
    pub(crate) config: Config,
    /// The configuration without the command-line options.
    pub(crate) read: Config,
    pub(crate) secrets: Opened,
    /// The configuration file from the command line, if any.
    pub(crate) named: Option<PathBuf>,
    pub(crate) database: Database,
    /// The option with which another command finds the same database.
    pub(crate) option: String,
    /// The command of --exec, as it was written.
    pub(crate) exec: Option<(String, Command)>,
    /// Whether the node prints each message and marks it done.
    pub(crate) prints: bool,
    pub(crate) show_payload: bool,
    pub(crate) backups: Option<Backups>,
}

impl Node {
    /// How this node handles messages.
    fn work(&self, routes: &Routes, stop: &Stop) -> Work {
        match &self.exec {
            Some((_, command)) => Work::Command(command.clone()),
            None if self.prints => Work::Printer(Printer::new(self.show_payload, stop.clone())),
            None => Work::Routes(routes.clone()),
        }
    }
}

/// Runs until it is asked to stop.
pub(crate) async fn run<B: Backend>(node: Node, store: B::Store, signals: (Signals, HangUps)) -> Result<()> {
    let (stop, stopped) = stop();
    let command = node.exec.as_ref().map(|(_, command)| command.clone());
    let routes = Routes::default();
    let work = Arc::new(node.work(&routes, &stop));
    let handles_all = node.exec.is_some() || node.prints;
    let neighbours = Neighbours::default();
    let services = services(&node.config.name, &node.secrets, store.clock());
    let courier = Courier::with_neighbours(services, neighbours.clone())?;
    let receiver = receiver::<B>(&node.config, &node.secrets, store.clone(), &work)?;
    neighbours.add(receiver.clone());
    let tls = [node.secrets.tls.clone(), node.secrets.admin_tls.clone()];
    let (listeners, receives) = listeners(&node.config, node.secrets.tls.as_ref()).await?;
    let admin_tls = node.secrets.admin_tls.as_ref();
    let (admin, administered) = admin(&node.config.admin, &node.config.tokens, admin_tls).await?;
    let metrics = count_metrics()?;
    postroom::telemetry::begin_at_zero(store.name());
    node.greet(receives, administered);
    let fetched = if handles_all { None } else { node.config.fetched()? };
    let options = fetched.iter().fold(node.options(), WorkerOptions::leave);
    let options = if handles_all { options } else { posting(options, &routes, &node.config.worker) };
    let counters = fetched.map(|topics| counters::<B>(topics, &store, &options)).transpose()?;
    routes.replace(node.secrets.handlers);
    let ways = Ways::new(courier.clone(), command, !node.config.services.is_empty());
    let is_sending = ways.is_sending();
    let outbox = Worker::<B>::outbox(store.clone(), handlers(&work)).options(options.clone()).transport(ways);
    let inbox = Worker::<B>::inbox(store.clone(), handlers(&work)).options(options);
    let places = Places::default();
    let (outbox, inbox) = (outbox.places(places.clone()), inbox.places(places.clone()));
    let (outbox, inbox) = (outbox.run(stopped.clone().wait()), inbox.run(stopped.clone().wait()));
    let receiving = receive(receiver.clone(), listeners, stopped.clone());
    let (backups, until) = (node.backups, stopped.clone());
    let copying = async {
        if let Some(backups) = backups {
            backups.run(until).await;
        }
    };
    let receiving = async {
        tokio::join!(receiving, copying);
        Ok(())
    };
    let working = async { tokio::try_join!(outbox, inbox, receiving).map(|_| ()) };
    let watched = Watched { courier: courier.clone(), places: places.clone(), file: node.database.file() };
    let (policies, taken_for) = (node.config.policies(), node.config.taken_for());
    let parts = Parts { store: Arc::new(store.clone()), metrics, counters, watched, taken_for, policies, stopped };
    let tokens = admin.tokens();
    // The admin listener answers until the workers have stopped.
    let (over, is_over) = tokio::sync::oneshot::channel::<()>();
    let administering = admin.run(parts, async { drop(is_over.await) });
    let working = async {
        let ended = working.await;
        drop(over);
        Ok(ended?)
    };
    let working = async { tokio::join!(working, administering).0 };
    let grace = duration::short(node.config.worker.grace);
    let clock = store.clock().clone();
    let (named, started) = (node.named, node.read);
    let receiver = Box::new(receiver);
    let replaceable =
        Replaceable { named, started, handles_all, courier, places, is_sending, receiver, routes, tls, tokens, clock };
    until_told(working, signals, &stop, &replaceable, &grace).await?;
    if stop.lost_stdout() {
        bail!(Problem::new(
            "stdout was closed",
            "run it again with stdout open; messages that were not printed are not done"
        ));
    }
    Ok(())
}

/// The queues from which services fetch messages of these topics.
fn counters<B: Backend>(topics: Topics, store: &B::Store, options: &WorkerOptions) -> Result<Counters> {
    let counter = |queue| Pull::<B>::new(store.clone(), queue, options.clone()).map(Box::new);
    Ok(Counters { topics, outbox: counter(Queue::Outbox)?, inbox: counter(Queue::Inbox)? })
}

/// Receives at every listener until the node stops.
async fn receive<B: Backend>(receiver: Receiver<B>, listeners: Vec<Listener>, stopped: Stopped) {
    let mut serving = tokio::task::JoinSet::new();
    for listener in listeners {
        let (receiver, stopped) = (receiver.clone(), stopped.clone());
        serving.spawn(async move { receiver.serve(listener, stopped.wait()).await });
    }
    serving.join_all().await;
}

/// Waits for the workers and for signals. The first signal asks the workers to stop; the second one stops at once.
async fn until_told(
    working: impl Future<Output = Result<()>>,
    (mut signals, mut hang_ups): (Signals, HangUps),
    stop: &Stop,
    replaceable: &Replaceable,
    grace: &str,
) -> Result<()> {
    let mut working = Box::pin(working);
    loop {
        let name = tokio::select! {
            ended = &mut working => return ended,
            () = hang_ups.next() => {
                replaceable.reload();
                continue;
            }
            name = signals.next() => name,
        };
        if stop.is_asked() {
            bail!(Problem::new(
                "stopped at once by a second signal",
                "start `postroom up` again; messages in progress are retried when their leases expire"
            ));
        }
        eprintln!("{name}: finishing the messages in progress, for at most {grace}; repeat to stop at once");
        stop.ask();
    }
}

/// Limits each handler URL to its share, however many topics it has.
fn posting(options: WorkerOptions, routes: &Routes, worker: &config::Worker) -> WorkerOptions {
    let (routes, worker) = (routes.clone(), worker.clone());
    options.endpoints(move |topic| routes.endpoint(topic, &worker))
}

impl Node {
    fn greet(&self, receives: String, administered: Vec<String>) {
        let (config, mut parts) = (&self.config, Vec::new());
        if let Some(file) = &config.file {
            parts.push(format!("uses the configuration {}", file.display()));
        }
        parts.push(receives);
        parts.extend(config.takes());
        if !config.services.is_empty() {
            parts.push(config.sends());
        }
        let has_handlers = !config.handlers.is_empty() || !config.pulled.is_empty();
        if has_handlers && (self.exec.is_some() || self.prints) {
            let option = if self.prints { "--print" } else { "--exec" };
            parts.push(format!("ignores [handlers]: {option} overrides them"));
        }
        let doing = match &self.exec {
            Some((command, _)) => format!("runs {} for each message", greeting::quoted(command)),
            None if self.prints => "prints each message and marks it done".into(),
            None if !has_handlers => "has no [handlers], so messages for this node wait until there is one".into(),
            None if config.handlers.is_empty() => {
                parts.extend(config.pushes());
                "lets services fetch messages".into()
            }
            None => {
                parts.extend(config.pushes());
                "posts each message to its handler".into()
            }
        };
        parts.extend(administered);
        parts.extend(config.doubts().into_iter().map(|doubt| format!("note: {doubt}")));
        greeting::greet(&self.database.shown(), &self.option, &doing, &parts);
    }

    fn options(&self) -> WorkerOptions {
        let (worker, retention) = (&self.config.worker, &self.config.retention);
        let options = WorkerOptions::default()
            .batch(worker.batch)
            .lease(worker.lease)
            .concurrency(worker.concurrency)
            .memory(worker.memory_mib << 20)
            .policies(self.config.policies())
            .poll(worker.poll)
            .poll_max(worker.poll_max)
            .grace(worker.grace)
            .retention(retention.kept())
            .maintenance(retention.every);
        let topics = self.config.handlers.iter().filter(|handler| handler.topic != EVERY).count();
        let has_few = topics == self.config.handlers.len() && (1..4).contains(&topics);
        let share = worker.per_place.or(has_few.then(|| worker.concurrency.div_ceil(topics.max(1))));
        share.into_iter().fold(options, WorkerOptions::per_place)
    }
}
