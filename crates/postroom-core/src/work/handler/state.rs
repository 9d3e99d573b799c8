//! Values that handlers share.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::support::error::{Error, Result};

/// A value that was added to the worker with [`Handlers::state`](crate::Handlers::state), as an argument of a handler.
///
/// Arguments of this type come after the payload, up to four of them. A worker does not start if a handler takes a
/// state that was not added. It is cheap to clone, and all clones are the same value.
///
/// ```
/// use postroom::handler::State;
/// use postroom::{Ctx, Event, HandlerResult, Handlers, Worker};
/// use postroom::store::{Memory, MemoryStore};
///
/// #[derive(serde::Serialize, serde::Deserialize, Event)]
/// #[event("mail.due")]
/// struct Mail { to: String }
///
/// struct Mailer { from: String }
///
/// async fn mail(_: &mut Ctx<Memory>, mail: Mail, mailer: State<Mailer>) -> HandlerResult<()> {
///     println!("from {} to {}", mailer.from, mail.to);
///     Ok(())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let handlers = Handlers::new().on(mail).state(Mailer { from: "shop".into() });
/// Worker::outbox(MemoryStore::new(), handlers).run(async { /* until this is ready */ }).await?;
///
/// // Without the state it does not start.
/// let refused = Worker::outbox(MemoryStore::new(), Handlers::new().on(mail)).run(async {}).await.unwrap_err();
/// assert!(refused.to_string().contains("\"mail.due\" needs a state of type"));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
pub struct State<T>(Arc<T>);

impl<T> State<T> {
    /// Returns the value, to keep it.
    pub fn into_arc(self) -> Arc<T> {
        self.0
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: fmt::Display> fmt::Display for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The type of a state that a handler takes.
#[derive(Clone, Copy, Debug)]
pub struct Needed {
    id: TypeId,
    name: &'static str,
}

impl Needed {
    #[doc(hidden)]
    pub fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>() }
    }
}

/// Values that all handlers of a worker share, by their type.
#[derive(Clone, Default)]
pub struct States(Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl States {
    #[doc(hidden)]
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) -> Result<()> {
        let map = Arc::get_mut(&mut self.0).ok_or_else(|| Error::invalid("the handlers are already in use"))?;
        map.insert(TypeId::of::<T>(), Arc::new(value));
        Ok(())
    }

    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Result<State<T>> {
        let value = self.0.get(&TypeId::of::<T>()).and_then(|value| value.clone().downcast().ok());
        value.map(State).ok_or_else(|| {
            let name = type_name::<T>();
            Error::invalid(format!("the handlers have no state of type {name}; add it with Handlers::state"))
        })
    }

    /// Checks that every state exists that the handler of a topic takes.
    #[doc(hidden)]
    pub fn check(&self, topic: &str, needed: &[Needed]) -> Result<()> {
        match needed.iter().find(|needed| !self.0.contains_key(&needed.id)) {
            None => Ok(()),
            Some(Needed { name, .. }) => Err(Error::invalid(format!(
                "the handler of the topic {topic:?} needs a state of type {name}: add it with Handlers::state"
            ))),
        }
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").field("values", &self.0.len()).finish()
    }
}
