//! What must hold, and how it is said that it does not.

use std::fmt;

use crate::config::Config;
use crate::message::{Each, List, Message};
use crate::row::{End, Line};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Property {
    Order,
    AtOnce,
    Once,
    Strand,
}

#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) property: Property,
    text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let property = match self.property {
            Property::Order => "order",
            Property::AtOnce => "at once",
            Property::Once => "once",
            Property::Strand => "strand",
        };
        write!(f, "{property}: {}", self.text)
    }
}

/// Checks a line that is about to be committed.
pub(crate) fn at_once(config: &Config, line: &Each<Line>) -> Result<(), Violation> {
    for lane in config.lanes() {
        let in_lane = config.messages().filter(|message| config.lane_of(*message) == lane);
        let held: List<_> = in_lane.filter(|message| line[*message].is_in_line()).collect();
        if held.len() > config.places {
            let text = format!("{held} of lane {lane} stand in line together, places = {}", config.places);
            return Err(Violation { property: Property::AtOnce, text });
        }
    }
    Ok(())
}

/// Checks the effect of a message that is about to be committed.
pub(crate) fn effect(
    config: &Config,
    commits: &List<Message>,
    ends: &Each<End>,
    message: Message,
) -> Result<(), Violation> {
    if ends[message] == End::Done {
        let text = format!("{message} has its effect a second time");
        return Err(Violation { property: Property::Once, text });
    }
    let lane = config.lane_of(message);
    let earlier = commits.iter().take_while(|other| *other != message);
    let before: List<_> = earlier.filter(|other| config.lane_of(*other) == lane).collect();
    if before.len() >= config.places {
        let text = format!("{message} is done before {before}, which committed earlier in lane {lane}");
        return Err(Violation { property: Property::Order, text });
    }
    Ok(())
}

/// Tells of messages that nothing but a fault can help any more.
pub(crate) fn stranded(unfinished: &List<Message>) -> Violation {
    Violation { property: Property::Strand, text: format!("{unfinished} can never be finished") }
}
