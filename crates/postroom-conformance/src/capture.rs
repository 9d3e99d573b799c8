//! Log lines and spans, caught. Each case has its own: the threads of its runtime write into it, and lines from threads
//! of the store's own find it by the store's name.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// One log line.
#[derive(Clone, Debug)]
pub struct Line {
    /// How loud it is.
    pub level: Level,
    /// Whose it is: ours begin with `postroom`, the others' are a driver's.
    pub target: String,
    /// What it says.
    pub message: String,
    /// Its fields, as text.
    pub fields: HashMap<String, String>,
}

impl Line {
    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

/// The log lines of one case.
#[derive(Debug, Default)]
pub struct Logs {
    on: AtomicBool,
    lines: Mutex<Vec<Line>>,
}

impl Logs {
    /// Catches lines from now on.
    pub fn listen(&self) {
        self.on.store(true, Ordering::SeqCst);
    }

    /// Every line so far.
    pub fn lines(&self) -> Vec<Line> {
        self.locked().clone()
    }

    /// The lines that say `message`.
    pub fn saying(&self, message: &str) -> Vec<Line> {
        self.locked().iter().filter(|line| line.message == message).cloned().collect()
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, metadata: &Metadata<'_>, record: impl FnOnce(&mut Line)) {
        let (level, target) = (*metadata.level(), metadata.target().to_owned());
        let mut line = Line { level, target, message: String::new(), fields: HashMap::new() };
        record(&mut line);
        if metadata.is_span() {
            line.message = format!("span {}", metadata.name());
        }
        self.locked().push(line);
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value.to_owned());
    }
}

impl Line {
    fn put(&mut self, name: &str, value: String) {
        if name == "message" {
            self.message = value;
        } else {
            self.fields.insert(name.to_owned(), value);
        }
    }
}

/// Writes into the logs of one case.
#[derive(Debug)]
pub struct Catcher(pub Arc<Logs>);

/// Writes into the logs of whichever case has a store of that name.
#[derive(Debug)]
pub struct Router;

static BY_STORE: RwLock<Option<HashMap<String, Arc<Logs>>>> = RwLock::new(None);

/// Lines about the store of that name belong to these logs, whatever thread they come from.
pub fn route(store: &str, logs: &Arc<Logs>) {
    let mut routes = BY_STORE.write().unwrap_or_else(PoisonError::into_inner);
    routes.get_or_insert_default().insert(store.to_owned(), logs.clone());
}

fn logs_of(store: &str) -> Option<Arc<Logs>> {
    let routes = BY_STORE.read().unwrap_or_else(PoisonError::into_inner);
    routes.as_ref()?.get(store).filter(|logs| logs.on.load(Ordering::SeqCst)).cloned()
}

#[derive(Default)]
struct StoreName(Option<String>);

impl Visit for StoreName {
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "store" {
            self.0 = Some(value.to_owned());
        }
    }
}

macro_rules! caught {
    () => {
        fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
            Interest::sometimes()
        }

        fn new_span(&self, attributes: &Attributes<'_>) -> Id {
            self.told(attributes.metadata(), |visit| attributes.record(visit));
            Id::from_u64(1)
        }

        fn event(&self, event: &Event<'_>) {
            self.told(event.metadata(), |visit| event.record(visit));
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    };
}

impl Subscriber for Catcher {
    caught!();

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        self.0.on.load(Ordering::SeqCst)
    }
}

impl Catcher {
    fn told(&self, metadata: &Metadata<'_>, record: impl Fn(&mut dyn Visit)) {
        self.0.take(metadata, |line| record(line));
    }
}

impl Subscriber for Router {
    caught!();

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("postroom")
    }
}

impl Router {
    fn told(&self, metadata: &Metadata<'_>, record: impl Fn(&mut dyn Visit)) {
        let mut store = StoreName::default();
        record(&mut store);
        if let Some(logs) = store.0.and_then(|name| logs_of(&name)) {
            logs.take(metadata, |line| record(line));
        }
    }
}
