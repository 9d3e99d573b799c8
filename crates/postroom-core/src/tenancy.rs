//! Many databases at once: which exist, which one a message belongs to, and which one is worked on next.

mod discovered;
mod discovery;
mod fleet;
mod key;
mod router;
mod selection;
mod stores;
mod turns;

pub use discovered::Discovered;
pub use discovery::{Discovery, DiscoveryOptions, Refreshed};
pub use fleet::Fleet;
pub use key::StoreKey;
pub use router::Router;
pub use selection::{Candidate, DrainFirst, LastTurn, RoundRobin, Selection};
pub use stores::{StoreProvider, Stores};
