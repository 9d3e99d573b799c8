//! An explicit-state model of lanes. It visits every state that a small configuration can reach, and checks in each:
//!
//! - order: when an effect commits, fewer messages of its lane that committed earlier are unfinished than it has places
//! - at once: never more messages of a lane than it has places stand in line or are leased
//! - once: no message has its effect twice
//! - strand: all committed messages can still be finished, by steps of living workers alone
//!
//! A statement sees what was committed when it began; what it locks it sees as it is now. What a transaction wrote is
//! seen by others when it commits, and its locks go then. Anybody may stand still anywhere.
//!
//! Every precaution of the protocol has a sabotage that takes it away. The model must find what breaks without it. The
//! number of states and steps is part of every test, so that no change of the model goes unnoticed.

#[path = "lanes_model/config.rs"]
mod config;
#[path = "lanes_model/enqueue.rs"]
mod enqueue;
#[path = "lanes_model/explore.rs"]
mod explore;
#[path = "lanes_model/fault.rs"]
mod fault;
#[path = "lanes_model/look.rs"]
mod look;
#[path = "lanes_model/message.rs"]
mod message;
#[path = "lanes_model/notes.rs"]
mod notes;
#[path = "lanes_model/operator.rs"]
mod operator;
#[path = "lanes_model/plan.rs"]
mod plan;
#[path = "lanes_model/properties.rs"]
mod properties;
#[path = "lanes_model/protocol.rs"]
mod protocol;
#[path = "lanes_model/row.rs"]
mod row;
#[path = "lanes_model/sabotages.rs"]
mod sabotages;
#[path = "lanes_model/seen.rs"]
mod seen;
#[path = "lanes_model/sketch.rs"]
mod sketch;
#[path = "lanes_model/sketch_state.rs"]
mod sketch_state;
#[path = "lanes_model/sketch_steps.rs"]
mod sketch_steps;
#[path = "lanes_model/snapshot.rs"]
mod snapshot;
#[path = "lanes_model/sound.rs"]
mod sound;
#[path = "lanes_model/state.rs"]
mod state;
#[path = "lanes_model/steps.rs"]
mod steps;
#[path = "lanes_model/verdict.rs"]
mod verdict;
#[path = "lanes_model/work.rs"]
mod work;
#[path = "lanes_model/worker.rs"]
mod worker;
