//! Metrics, caught in the same two ways as log lines.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// The metrics of one case: every value of each, in order. A metric with a reason is kept under its name, and again
/// under its name and reason: `name{reason="topic"}`.
#[derive(Debug, Default)]
pub struct Meters(Mutex<HashMap<String, Vec<f64>>>);

impl Meters {
    /// Every value that was recorded under `name`.
    pub fn values(&self, name: &str) -> Vec<f64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned().unwrap_or_default()
    }

    /// The sum of them: what a counter shows.
    pub fn sum(&self, name: &str) -> f64 {
        self.values(name).iter().sum()
    }

    fn put(&self, name: &str, value: f64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default().push(value);
    }
}

static BY_STORE: RwLock<Option<HashMap<String, Arc<Meters>>>> = RwLock::new(None);

/// Metrics with this store in their label belong to these meters, whatever thread they come from.
pub fn route(store: &str, meters: &Arc<Meters>) {
    let mut routes = BY_STORE.write().unwrap_or_else(PoisonError::into_inner);
    routes.get_or_insert_default().insert(store.to_owned(), meters.clone());
}

/// Records into the meters of one case.
#[derive(Debug)]
pub struct Catcher(pub Arc<Meters>);

/// Records into the meters of whichever case has a store of that name.
#[derive(Debug)]
pub struct Router;

struct Meter {
    meters: Arc<Meters>,
    names: Vec<String>,
}

impl Meter {
    fn new(meters: Arc<Meters>, key: &Key) -> Self {
        let reason = key.labels().find(|label| label.key() == "reason").map(metrics::Label::value);
        let with_reason = reason.map(|reason| format!("{}{{reason=\"{reason}\"}}", key.name()));
        Self { meters, names: [key.name().to_owned()].into_iter().chain(with_reason).collect() }
    }

    fn put(&self, value: f64) {
        self.names.iter().for_each(|name| self.meters.put(name, value));
    }
}

impl CounterFn for Meter {
    #[expect(clippy::cast_precision_loss, reason = "a test never counts beyond 52 bits")]
    fn increment(&self, value: u64) {
        self.put(value as f64);
    }

    fn absolute(&self, value: u64) {
        CounterFn::increment(self, value);
    }
}

impl GaugeFn for Meter {
    fn increment(&self, value: f64) {
        self.set(value);
    }

    fn decrement(&self, value: f64) {
        self.set(-value);
    }

    fn set(&self, value: f64) {
        self.put(value);
    }
}

impl HistogramFn for Meter {
    fn record(&self, value: f64) {
        self.put(value);
    }
}

trait Find {
    fn find(&self, key: &Key) -> Option<Arc<Meter>>;
}

impl Find for Catcher {
    fn find(&self, key: &Key) -> Option<Arc<Meter>> {
        Some(Arc::new(Meter::new(self.0.clone(), key)))
    }
}

impl Find for Router {
    fn find(&self, key: &Key) -> Option<Arc<Meter>> {
        let store = key.labels().find(|label| label.key() == "store")?.value();
        let routes = BY_STORE.read().unwrap_or_else(PoisonError::into_inner);
        let meters = routes.as_ref()?.get(store)?.clone();
        Some(Arc::new(Meter::new(meters, key)))
    }
}

macro_rules! recorder {
    ($name:ident) => {
        impl Recorder for $name {
            fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

            fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

            fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

            fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
                self.find(key).map_or_else(Counter::noop, Counter::from_arc)
            }

            fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
                self.find(key).map_or_else(Gauge::noop, Gauge::from_arc)
            }

            fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
                self.find(key).map_or_else(Histogram::noop, Histogram::from_arc)
            }
        }
    };
}

recorder!(Catcher);
recorder!(Router);
