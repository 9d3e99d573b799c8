//! What a statement of a look sees.

use crate::message::{Each, List, Message};
use crate::notes::Notes;
use crate::row::{Pause, Rows};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Snapshot {
    pub(crate) rows: Rows,
    pub(crate) numbers: List<Message>,
    pub(crate) generations: Each<u8>,
    pub(crate) notes: Notes,
    pub(crate) pause: Pause,
}
