//! Reads the configuration again while the node runs: secrets, the certificate, services and handlers. With a mistake
//! in it, everything stays as it was.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use postroom::{Backend, Clock, Courier, Hook, Keys, Places, Receiver, Services, TlsIdentity};

use super::greeting::listed;
use super::push::Routes;
use crate::config::{self, Config, EVERY, Opened};
use crate::problem::Problem;

/// The hooks of a receiver, whatever its database is. Each says whether there is such a hook.
pub(super) trait Hooks: Send + Sync {
    fn replace_hook(&self, hook: Hook) -> bool;
    fn remove_hook(&self, name: &str) -> bool;
}

impl<B: Backend> Hooks for Receiver<B> {
    fn replace_hook(&self, hook: Hook) -> bool {
        self.replace_hook(hook)
    }

    fn remove_hook(&self, name: &str) -> bool {
        self.remove_hook(name)
    }
}

/// What can be replaced while messages are on their way.
pub(super) struct Replaceable {
    /// The file that was named, if one was.
    pub(super) named: Option<PathBuf>,
    /// As it was when the node started.
    pub(super) started: Config,
    /// A command or the printer handles everything: what the file says of handlers is for another time.
    pub(super) handles_all: bool,
    pub(super) courier: Courier,
    pub(super) places: Places,
    pub(super) is_sending: Arc<AtomicBool>,
    pub(super) keys: BTreeMap<String, Keys>,
    pub(super) routes: Routes,
    pub(super) hooks: Box<dyn Hooks>,
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
        if !self.handles_all {
            self.refuse_other_ways(&config)?;
        }
        let (opened, waiting) = (config.open()?, self.needs_restart(&config)?);
        // The only step that can fail comes first.
        self.courier.replace(services(&config, &opened, &self.clock))?;
        self.is_sending.store(!config.services.is_empty(), Ordering::Relaxed);
        // What failed under the old configuration is tried at once.
        self.places.reset();
        for (name, keys) in &self.keys {
            let now = opened.sources.iter().find(|(source, _)| source == name).map(|(_, keys)| keys.clone());
            // Without keys nobody can speak for a source any more.
            keys.replace(now.unwrap_or_default())?;
        }
        self.routes.replace(opened.handlers);
        if let (Some(shown), Some(tls)) = (&self.tls, &opened.tls) {
            shown.replace(tls);
        }
        // Whoever has the secret of a hook that is gone must not get in any more.
        for hook in self.started.hooks.iter().filter(|hook| config.hooks.iter().all(|kept| kept.name != hook.name)) {
            self.hooks.remove_hook(&hook.name);
        }
        let unknown =
            opened.hooks.into_iter().zip(&config.hooks).filter(|(hook, _)| !self.hooks.replace_hook(hook.clone()));
        let unknown: Vec<_> = unknown.map(|(_, hook)| format!("[hooks.{}]", hook.name)).collect();
        let mut told = vec!["secrets, services and handlers are those of the configuration now".to_owned()];
        if self.tls.is_some() && opened.tls.is_some() {
            told.push("whoever connects from now on sees the certificate of the file".to_owned());
        }
        let waiting = [waiting, unknown].concat();
        if !waiting.is_empty() {
            told.push(format!("a restart is needed for {}", listed(waiting.iter().map(String::as_str))));
        }
        Ok(told)
    }

    /// Refuses a configuration under which the workers, which go on as they began, would do to messages what nobody
    /// wants.
    fn refuse_other_ways(&self, config: &Config) -> Result<()> {
        let has_none = |config: &Config| config.handlers.is_empty() && config.pulled.is_empty();
        if has_none(config) && !has_none(&self.started) {
            let what = "it has no [handlers] any more: all messages would wait";
            bail!(Problem::new(what, "a restart, if that is what you want"));
        }
        if let Some(topic) = config.newly_fetched(&self.started)? {
            let whose = if topic == EVERY { "of other topics".to_owned() } else { format!("of the topic {topic}") };
            let what = format!("messages {whose} would be fetched now, and this node still takes them itself");
            bail!(Problem::new(what, "a restart: from then on it leaves them to those who fetch them"));
        }
        Ok(())
    }

    /// What is different and cannot be replaced.
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
            ("[admin]", before.admin != config.admin),
            ("what is fetched by [handlers]", before.fetched()? != config.fetched()?),
        ];
        let mut changed: Vec<_> =
            changed.into_iter().filter(|(_, is_changed)| *is_changed).map(|(name, _)| name.to_owned()).collect();
        for source in &config.sources {
            let is_reached = |config: &Config| config.services.iter().any(|service| service.name == source.name);
            let same = before.sources.iter().find(|known| known.name == source.name);
            if same.is_none_or(|known| known.window != source.window || known.allow_v1 != source.allow_v1)
                || is_reached(before) != is_reached(config)
            {
                changed.push(format!("[sources.{}]", source.name));
            }
        }
        Ok(changed)
    }
}

/// The service map.
pub(super) fn services(config: &Config, opened: &Opened, clock: &Clock) -> Services {
    let services = Services::new(&config.name).clock(clock.clone());
    opened.services.iter().cloned().fold(services, Services::service)
}
