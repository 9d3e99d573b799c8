//! A message broker for one test run.

use std::{fmt, path::PathBuf};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal};

use crate::{
    folder::Folder,
    handshake,
    keeper::Keeper,
    nats,
    port::free_ports,
    program,
    rabbitmq::{self, PortMapper},
};

/// A message broker that can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerKind {
    /// RabbitMQ.
    RabbitMq,
    /// NATS with JetStream.
    Nats,
}

impl BrokerKind {
    /// Both brokers.
    pub const ALL: [Self; 2] = [Self::RabbitMq, Self::Nats];

    /// Returns the environment variable that names a broker to test against.
    pub fn url_variable(self) -> &'static str {
        match self {
            Self::RabbitMq => "POSTROOM_TEST_RABBITMQ_URL",
            Self::Nats => "POSTROOM_TEST_NATS_URL",
        }
    }

    /// Fails if this machine can have no broker, and says what to do. It installs the broker where that is possible.
    pub fn check_installed(self) -> Result<()> {
        self.program().map(drop)
    }

    fn program(self) -> Result<PathBuf> {
        let variable = self.url_variable();
        program::of_broker(self).with_context(|| format!("install it, or name a broker to test against in {variable}"))
    }
}

impl fmt::Display for BrokerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RabbitMq => "RabbitMQ",
            Self::Nats => "NATS",
        })
    }
}

/// A broker in its own folder, on a port of 127.0.0.1. When it is dropped, it ends and its folder is removed.
#[derive(Debug)]
pub struct Broker {
    // This is dropped before the folder: it ends the broker, which writes there.
    keeper: Option<Keeper>,
    kind: BrokerKind,
    program: PathBuf,
    mapper: Option<PortMapper>,
    port: u16,
    /// The port for other nodes of a cluster.
    nodes: u16,
    folder: Folder,
}

impl Broker {
    /// Sets a broker up, starts it, and waits until it answers. It installs a missing broker where that is possible.
    pub fn start(kind: BrokerKind) -> Result<Self> {
        let program = kind.program()?;
        Self::set_up(kind, program).and_then(Self::started).with_context(|| format!("{kind} cannot be started"))
    }

    fn set_up(kind: BrokerKind, program: PathBuf) -> Result<Self> {
        let [port, nodes] = free_ports()?;
        let (folder, mapper) = match kind {
            BrokerKind::RabbitMq => (Folder::owned_by(&rabbitmq::ACCOUNTS)?, Some(PortMapper::start(&program)?)),
            BrokerKind::Nats => (Folder::owned_by(&["nats", "nobody"])?, None),
        };
        if kind == BrokerKind::RabbitMq {
            rabbitmq::set_up(&folder, port)?;
        }
        Ok(Self { keeper: None, kind, program, mapper, port, nodes, folder })
    }

    fn started(mut self) -> Result<Self> {
        self.restart()?;
        Ok(self)
    }

    /// Returns the kind of broker.
    pub fn kind(&self) -> BrokerKind {
        self.kind
    }

    /// Returns the URL for clients.
    pub fn url(&self) -> String {
        match self.kind {
            BrokerKind::RabbitMq => format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port),
            BrokerKind::Nats => format!("nats://127.0.0.1:{}", self.port),
        }
    }

    /// Returns the path of its log, which is removed with the broker.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Returns its processes.
    pub fn pids(&self) -> Vec<Pid> {
        self.keeper.iter().map(Keeper::server).chain(self.mapper.iter().map(PortMapper::pid)).collect()
    }

    /// Kills it, and waits until it is gone. Its data stays for a restart.
    pub fn kill(&mut self) -> Result<()> {
        self.keeper.take().map_or(Ok(()), Keeper::kill)
    }

    /// Shuts it down. Its data stays for a restart.
    pub fn stop(&mut self) -> Result<()> {
        self.keeper.take().map_or(Ok(()), |keeper| keeper.end(Signal::TERM))
    }

    /// Starts it again in the same folder and on the same port, and waits until it answers. A running one is shut
    /// down first.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        let command = match &self.mapper {
            Some(mapper) => rabbitmq::command(&self.folder, &self.program, mapper, self.nodes),
            None => nats::command(&self.folder, &self.program, self.port),
        };
        let keeper = Keeper::start(&self.folder, "KILL", &command)?;
        handshake::wait_for_broker(self.kind, self.port, &keeper, &self.log())?;
        self.keeper = Some(keeper);
        Ok(())
    }
}
