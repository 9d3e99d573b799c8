//! A message that waits for its turn in a lane, and one that blocks a lane.

use postroom::operator::LanePlace;
use postroom::queue::State;

use super::{Around, Seen};
use crate::cli::explain::answer::Answer;
use crate::{lane, output};

/// Behind others in its lane.
pub(super) fn in_lane(place: &LanePlace, seen: &Seen, around: &Around) -> Answer {
    let first = &place.lane.first;
    let id = lane::id(seen.queue, first);
    let is = format!("It is {}, behind {id}, which {}.", lane::place(place), lane::doing(first, around.now));
    if place.lane.is_blocked() {
        return Answer::new("lane-blocked", is)
            .since(seen.created_at)
            .next("Nothing happens in this lane until an operator requeues or dismisses that message.")
            .advice(format!(
                "`postroom explain {id}` says why it is dead. Then run `postroom revive {id}`, or `postroom dismiss \
                 {id} --why …` to discard it."
            ));
    }
    let answer = Answer::new("in-lane", is).since(seen.created_at);
    let later = first.visible_at.filter(|at| first.state == State::Ready && *at > around.now);
    let next = "Its turn comes when all messages before it in the lane have ended.";
    let advice = match first.state {
        State::Leased => format!("Nothing, unless it takes too long: then see `postroom explain {id}`."),
        _ => format!("`postroom explain {id}` says what that message waits for."),
    };
    answer.next_at(later, next).advice(advice)
}

/// What waits because the message is dead: a sentence, or nothing.
pub(super) fn blocking(seen: &Seen) -> String {
    seen.lane.as_ref().filter(|place| place.lane.is_blocked() && place.ahead == 0).map_or_else(String::new, |place| {
        format!(" It blocks lane {}, where {}.", output::one_line(&place.lane.name), lane::behind(&place.lane))
    })
}
