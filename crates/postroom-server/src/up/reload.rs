//! Reads the configuration again while the node runs: secrets, the certificate, services and handlers. With a mistake
//! in it, everything stays as it was.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use postroom::{Clock, Courier, Hook, Keys, Services, TlsIdentity};

use super::greeting::listed;
use super::push::Routes;
use crate::config::{self, Config, Opened};
use crate::problem::Problem;

/// What can be replaced while messages are on their way.
pub(super) struct Replaceable {
    /// The file that was named, if one was.
    pub(super) named: Option<PathBuf>,
    /// As it was when the node started.
    pub(super) started: Config,
    pub(super) courier: Courier,
    pub(super) is_sending: Arc<AtomicBool>,
    pub(super) keys: BTreeMap<String, Keys>,
    pub(super) routes: Routes,
    /// Gives a hook of the receiver other secrets; false when it has no such hook.
    pub(super) hooks: Box<dyn Fn(Hook) -> bool + Send + Sync>,
    pub(super) tls: Option<TlsIdentity>,
    pub(super) clock: Clock,
}

impl Replaceable {
    /// Says what came of it.
    pub(super) fn reload(&self) {
        match self.replace() {
            Ok(told) => told.iter().for_each(|line| eprintln!("SIGHUP: {line}")),
            Err(error) => eprintln!("SIGHUP: the configuration stays as it was: {error:#}"),
        }
    }

    fn replace(&self) -> Result<Vec<String>> {
        // The file that was there at the start must be there: without it there would be the defaults.
        let config = config::load(self.started.file.as_deref().or(self.named.as_deref()))?;
        let has_none = |config: &Config| config.handlers.is_empty() && config.pulled.is_empty();
        if has_none(&config) && !has_none(&self.started) {
            let what = "it has no [handlers] any more: messages would be printed, and done";
            bail!(Problem::new(what, "a restart, if that is what you want"));
        }
        let opened = config.open()?;
        // The only step that can fail comes first.
        self.courier.replace(services(&config, &opened, &self.clock))?;
        self.is_sending.store(!config.services.is_empty(), Ordering::Relaxed);
        for (name, keys) in &self.keys {
            let now = opened.sources.iter().find(|(source, _)| source == name).map(|(_, keys)| keys.clone());
            // Without keys nobody can speak for a source any more.
            keys.replace(now.unwrap_or_default())?;
        }
        self.routes.replace(opened.handlers, !self.started.pulled.is_empty());
        if let (Some(shown), Some(tls)) = (&self.tls, &opened.tls) {
            shown.replace(tls);
        }
        let unknown = opened.hooks.into_iter().zip(&config.hooks).filter(|(hook, _)| !(self.hooks)(hook.clone()));
        let unknown: Vec<_> = unknown.map(|(_, hook)| format!("[hooks.{}]", hook.name)).collect();
        let mut told = vec!["secrets, services and handlers are those of the configuration now".to_owned()];
        if self.tls.is_some() && opened.tls.is_some() {
            told.push("whoever connects from now on sees the certificate of the file".to_owned());
        }
        let waiting = [self.needs_restart(&config), unknown].concat();
        if !waiting.is_empty() {
            told.push(format!("a restart is needed for {}", listed(waiting.iter().map(String::as_str))));
        }
        Ok(told)
    }

    /// What is different and cannot be replaced.
    fn needs_restart(&self, config: &Config) -> Vec<String> {
        let before = &self.started;
        let changed = [
            ("[node]", before.name != config.name),
            ("[store]", before.store != config.store),
            ("[worker]", before.worker != config.worker),
            ("[retention]", before.retention != config.retention),
            ("[backup]", before.backup != config.backup),
            ("[receiver]", !before.receiver.is_like(&config.receiver)),
            ("[admin]", before.admin != config.admin),
            ("`pull` in [handlers]", before.pulled != config.pulled),
        ];
        let mut changed: Vec<_> =
            changed.into_iter().filter(|(_, is_changed)| *is_changed).map(|(name, _)| name.to_owned()).collect();
        let is_gone = |hook: &&config::Hook| config.hooks.iter().all(|kept| kept.name != hook.name);
        changed.extend(before.hooks.iter().filter(is_gone).map(|hook| format!("[hooks.{}]", hook.name)));
        for source in &config.sources {
            let is_reached = |config: &Config| config.services.iter().any(|service| service.name == source.name);
            let same = before.sources.iter().find(|known| known.name == source.name);
            if same.is_none_or(|known| known.window != source.window || known.allow_v1 != source.allow_v1)
                || is_reached(before) != is_reached(config)
            {
                changed.push(format!("[sources.{}]", source.name));
            }
        }
        changed
    }
}

/// The service map.
pub(super) fn services(config: &Config, opened: &Opened, clock: &Clock) -> Services {
    let services = Services::new(&config.name).clock(clock.clone());
    opened.services.iter().cloned().fold(services, Services::service)
}
