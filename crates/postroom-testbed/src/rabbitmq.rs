//! Sets up and starts RabbitMQ, only on loopback and with its own port mapper.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use rustix::process::Pid;

use crate::{folder::Folder, keeper::Keeper, port::free_port, program};

pub(crate) const ACCOUNTS: [&str; 2] = ["rabbitmq", "nobody"];
const SETTINGS: &str = "rabbitmq.conf";
const PLUGINS: &str = "enabled_plugins";

/// Erlang's port mapper, through which the nodes of one machine find each other. A node that finds none starts one as
/// a daemon that nobody would ever end, so it gets one that is kept like a server.
#[derive(Debug)]
pub(crate) struct PortMapper {
    // This is dropped before the folder, as with every server.
    keeper: Keeper,
    _folder: Folder,
    port: u16,
}

impl PortMapper {
    pub(crate) fn start(rabbitmq: &Path) -> Result<Self> {
        let program = program::beside(rabbitmq, "epmd")?;
        let (folder, port) = (Folder::owned_by(&ACCOUNTS)?, free_port()?);
        let words = [&program.display().to_string(), "-address", "127.0.0.1", "-port", &port.to_string()];
        let keeper = Keeper::start(&folder, "KILL", &words.map(str::to_owned))?;
        Ok(Self { keeper, _folder: folder, port })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.keeper.server()
    }
}

pub(crate) fn set_up(folder: &Folder, port: u16) -> Result<()> {
    let settings = format!("listeners.tcp.1 = 127.0.0.1:{port}\ndisk_free_limit.absolute = 1MB\n");
    fs::write(folder.join(SETTINGS), settings).context("cannot write RabbitMQ's settings")?;
    fs::write(folder.join(PLUGINS), "[].\n").context("cannot write RabbitMQ's plugins")
}

/// Returns the command. `nodes` is the port for other nodes: there are none, but the port cannot be switched off.
pub(crate) fn command(folder: &Folder, program: &Path, mapper: &PortMapper, nodes: u16) -> Vec<String> {
    let path = |name: &str| folder.join(name).display().to_string();
    let settings = [
        ("HOME", path("")),
        ("ERL_EPMD_PORT", mapper.port.to_string()),
        ("RABBITMQ_CONF_ENV_FILE", "/dev/null".into()),
        ("RABBITMQ_CONFIG_FILE", path(SETTINGS)),
        ("RABBITMQ_ADVANCED_CONFIG_FILE", path("none.config")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", path(PLUGINS)),
        ("RABBITMQ_MNESIA_BASE", path("data")),
        ("RABBITMQ_LOGS", path("log")),
        ("RABBITMQ_NODENAME", "postroom@localhost".into()),
        ("RABBITMQ_DIST_PORT", nodes.to_string()),
        // Idle schedulers sleep at once, because the machine has other work.
        (
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
            "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none".into(),
        ),
        // This avoids a shell in between, which would be killed in place of the server.
        ("RABBITMQ_ALLOW_INPUT", "yes".into()),
    ];
    let settings = settings.map(|(name, value)| format!("{name}={value}"));
    let program = [program.display().to_string(), "-noinput".into()];
    ["/usr/bin/env".to_owned()].into_iter().chain(settings).chain(program).collect()
}
