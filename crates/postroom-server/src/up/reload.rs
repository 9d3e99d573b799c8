//! Reloads secrets, tokens, certificates, sources, services and handlers while the node runs. If the configuration has
//! a mistake, nothing changes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use postroom::clock::Clock;
use postroom::handler::Backend;
use postroom::services::{Courier, Hook, Receiver, Services, Source, TlsIdentity};
use postroom::worker::Places;

use super::greeting::listed;
use super::push::Routes;
use super::serve::sources;
use crate::admin::Tokens;
use crate::config::{self, Config, EVERY, Opened};
use crate::problem::Problem;

/// The senders of a receiver, on any database.
pub(super) trait Senders: Send + Sync {
    fn check_sources(&self, sources: Vec<Source>) -> postroom::Result<()>;
    fn replace_sources(&self, sources: Vec<Source>) -> postroom::Result<()>;
    /// Returns whether the hook exists; so does `remove_hook`.
    fn replace_hook(&self, hook: Hook) -> postroom::Result<bool>;
    fn remove_hook(&self, name: &str) -> bool;
}

impl<B: Backend> Senders for Receiver<B> {
    fn check_sources(&self, sources: Vec<Source>) -> postroom::Result<()> {
        self.check_sources(sources)
    }

    fn replace_sources(&self, sources: Vec<Source>) -> postroom::Result<()> {
        self.replace_sources(sources)
    }

    fn replace_hook(&self, hook: Hook) -> postroom::Result<bool> {
        self.replace_hook(hook)
    }

    fn remove_hook(&self, name: &str) -> bool {
        self.remove_hook(name)
    }
}

/// Everything that a reload can replace.
pub(super) struct Replaceable {
    /// The configuration file from the command line, if any.
    pub(super) named: Option<PathBuf>,
    /// As it was when the node started.
    pub(super) started: Config,
    /// A command or the printer handles everything, so the handlers of the file do not matter.
    pub(super) handles_all: bool,
    pub(super) courier: Courier,
    pub(super) places: Places,
    pub(super) is_sending: Arc<AtomicBool>,
    pub(super) receiver: Box<dyn Senders>,
    pub(super) routes: Routes,
    /// Of the receiver and of the admin listener.
    pub(super) tls: [Option<TlsIdentity>; 2],
    pub(super) tokens: Tokens,
    pub(super) clock: Clock,
}

impl Replaceable {
    /// Reloads, and reports the result.
    pub(super) fn reload(&self) {
        match self.replace() {
            Ok(told) => told.iter().for_each(|line| eprintln!("SIGHUP: {line}")),
            Err(error) => eprintln!("SIGHUP: the configuration was not reloaded: {error:#}"),
        }
    }

    fn replace(&self) -> Result<Vec<String>> {
        // The file from the start must still exist. Without it, the defaults would apply.
        let config = config::load(self.started.file.as_deref().or(self.named.as_deref()))?;
        if !self.handles_all {
            self.refuse_other_ways(&config)?;
        }
        let (opened, waiting) = (config.open()?, self.needs_restart(&config)?);
        let sources = sources(&config, &opened)?;
        // Steps that can fail come first.
        self.refuse_longer_windows(&config)?;
        self.receiver.check_sources(sources.clone())?;
        self.courier.replace(services(&self.started.name, &opened, &self.clock))?;
        self.is_sending.store(!config.services.is_empty(), Ordering::Relaxed);
        // Retry at once what failed under the old configuration.
        self.places.reset();
        self.receiver.replace_sources(sources)?;
        self.routes.replace(opened.handlers);
        let shown = self.tls.iter().zip([&opened.tls, &opened.admin_tls]);
        let shown: Vec<_> = shown.filter_map(|(shown, now)| shown.as_ref().zip(now.as_ref())).collect();
        shown.iter().for_each(|(shown, now)| shown.replace(now));
        self.tokens.replace(config.tokens.clone());
        // The secret of a removed hook must not be accepted any more.
        for hook in self.started.hooks.iter().filter(|hook| config.hooks.iter().all(|kept| kept.name != hook.name)) {
            self.receiver.remove_hook(&hook.name);
        }
        let mut unknown = Vec::new();
        for (hook, written) in opened.hooks.into_iter().zip(&config.hooks) {
            if !self.receiver.replace_hook(hook)? {
                unknown.push(format!("[hooks.{}]", written.name));
            }
        }
        let mut told = vec!["reloaded secrets, tokens, sources, services and handlers".to_owned()];
        if !shown.is_empty() {
            told.push("reloaded certificates; new connections use them".to_owned());
        }
        let waiting = [waiting, unknown].concat();
        if !waiting.is_empty() {
            told.push(format!("restart the node to apply {}", listed(waiting.iter().map(String::as_str))));
        }
        Ok(told)
    }

    /// Refuses a configuration that the running workers would apply wrongly.
    fn refuse_other_ways(&self, config: &Config) -> Result<()> {
        let has_none = |config: &Config| config.handlers.is_empty() && config.pulled.is_empty();
        if has_none(config) && !has_none(&self.started) {
            let what = "it no longer has any [handlers], so all messages would wait";
            bail!(Problem::new(what, "restart the node if you want this"));
        }
        if let Some(topic) = config.newly_fetched(&self.started)? {
            let whose = if topic == EVERY { "of other topics".to_owned() } else { format!("of the topic {topic}") };
            let what =
                format!("messages {whose} are now for services to fetch, but this node still claims them itself");
            bail!(Problem::new(what, "restart the node to let services fetch them"));
        }
        Ok(())
    }

    /// Refuses windows that are longer than the retention that the workers started with.
    fn refuse_longer_windows(&self, config: &Config) -> Result<()> {
        match config.forgets_early(&self.started.retention, self.started.receiver.window) {
            Some(what) => bail!(Problem::new(what, "restart the node to apply the new [retention]")),
            None => Ok(()),
        }
    }

    /// The changed sections that a reload cannot apply.
    fn needs_restart(&self, config: &Config) -> Result<Vec<String>> {
        let before = &self.started;
        let changed = [
            ("[node]", before.name != config.name),
            ("[store]", before.store != config.store),
            ("[worker]", before.worker != config.worker),
            ("[retry] and other retry keys", before.policies() != config.policies()),
            ("[retention]", before.retention != config.retention),
            ("[backup]", before.backup != config.backup),
            ("[receiver]", !before.receiver.is_like(&config.receiver)),
            ("[admin]", !before.admin.is_like(&config.admin)),
            ("`pull` in [handlers]", before.fetched()? != config.fetched()?),
        ];
        let changed = changed.into_iter().filter(|(_, is_changed)| *is_changed);
        Ok(changed.map(|(name, _)| name.to_owned()).collect())
    }
}

/// The services of a node with that name.
pub(super) fn services(name: &str, opened: &Opened, clock: &Clock) -> Services {
    let services = Services::new(name).clock(clock.clone());
    let services = opened.services.iter().cloned().fold(services, Services::service);
    opened.others.iter().cloned().fold(services, Services::others)
}
