//! What is told of lanes, in words: on the command line, on the page and by the health.

use postroom::clock::Timestamp;
use postroom::operator::{FirstInLane, Lane, LanePlace, Lanes};
use postroom::queue::{Queue, State};

use crate::output;

/// What to do about a lane that is blocked.
pub(crate) const UNBLOCK: &str = "a lane that is blocked goes on when its dead message is requeued (`postroom revive \
                                  ID`) or dismissed (`postroom dismiss ID --why …`)";

const ORDINALS: [&str; 10] =
    ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];

/// The lanes of a queue in one line: `1,204 lanes have messages in the outbox; 1 is blocked`.
pub(crate) fn counted(queue: Queue, lanes: &Lanes) -> String {
    let some = format!("{}{}", output::thousands(lanes.lanes), if lanes.may_be_more { "+" } else { "" });
    let have = if lanes.lanes == 1 { "lane has" } else { "lanes have" };
    let blocked = match lanes.blocked_lanes {
        0 => "none is blocked".to_owned(),
        1 => "1 is blocked".to_owned(),
        many => format!("{} are blocked", output::thousands(many)),
    };
    format!("{some} {have} messages in the {queue}; {blocked}")
}

/// The blocked lanes of a queue, if there are any: `2 lanes in the outbox are blocked by a dead message: order-7, …`.
pub(crate) fn blocked(queue: Queue, lanes: &Lanes) -> Option<String> {
    let first = lanes.blocked.first()?;
    let (name, more) = (output::one_line(&first.name), lanes.blocked_lanes.saturating_sub(1));
    Some(match more {
        0 => format!("the lane {name} in the {queue} is blocked by a dead message"),
        1 => format!("the lane {name} and 1 other in the {queue} are blocked by a dead message"),
        _ => {
            let more = output::thousands(more);
            format!("the lane {name} and {more} others in the {queue} are blocked by a dead message")
        }
    })
}

/// The number of messages in a lane: `12`, or `more than 10,000`.
pub(crate) fn depth(lane: &Lane) -> String {
    at_most(lane.messages, Lane::COUNTED)
}

fn at_most(number: u64, most: usize) -> String {
    let sign = if number >= most as u64 { "+" } else { "" };
    format!("{}{sign}", output::thousands(number))
}

/// What the first message of a lane does: `is retried at 2026-11-16 02:14 UTC`.
pub(crate) fn doing(first: &FirstInLane, now: Timestamp) -> String {
    let later = first.visible_at.filter(|at| *at > now).map(output::minute);
    match (first.state, later) {
        (State::Dead, _) => "is dead and blocks the lane".to_owned(),
        (State::Leased, Some(_)) => "is in progress".to_owned(),
        (State::Leased, None) => "was in progress until its lease ran out".to_owned(),
        (_, Some(at)) if first.attempts > 0 => format!("is retried at {at}"),
        (_, Some(at)) => format!("is due at {at}"),
        (_, None) => "waits for a worker".to_owned(),
    }
}

/// The id by which the first message is found.
pub(crate) fn id(queue: Queue, first: &FirstInLane) -> String {
    match (queue, &first.party) {
        (Queue::Inbox, Some(source)) => output::one_line(&format!("{source}/{}", first.id)),
        _ => output::one_line(&first.id),
    }
}

/// Where a message stands: `third in lane order-7`.
pub(crate) fn place(place: &LanePlace) -> String {
    let lane = output::one_line(&place.lane.name);
    let number = usize::try_from(place.ahead).unwrap_or(usize::MAX);
    match ORDINALS.get(number) {
        Some(ordinal) => format!("{ordinal} in lane {lane}"),
        None if number >= Lane::COUNTED => {
            format!("behind more than {} others in lane {lane}", output::thousands(Lane::COUNTED as u64))
        }
        None => format!("number {} in lane {lane}", output::thousands(place.ahead + 1)),
    }
}

/// How many messages wait for the first one: `3 messages wait behind it`.
pub(crate) fn behind(lane: &Lane) -> String {
    let behind = lane.messages.saturating_sub(1);
    let wait = if behind == 1 { "message waits" } else { "messages wait" };
    format!("{} {wait} behind it", at_most(behind, Lane::COUNTED - 1))
}

#[cfg(test)]
mod tests {
    use postroom::NewMessage;
    use postroom::Outbox;
    use postroom::operator::Filter;
    use postroom::store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn a_place_in_a_lane_is_told_as_people_count() {
        let outbox = Outbox::new(MemoryStore::new());
        for _ in 0..12 {
            outbox.enqueue(NewMessage::new("order.paid", "{}").lane("order-7")).await.unwrap();
        }
        let mut told = Vec::new();
        for row in outbox.queue().list(Filter::all()).await.unwrap() {
            told.push(place(&outbox.queue().lane_of(row.seq()).await.unwrap().unwrap()));
        }
        assert_eq!((told[0].as_str(), told[2].as_str()), ("first in lane order-7", "third in lane order-7"));
        assert_eq!(told[11], "number 12 in lane order-7");
        let lanes = outbox.queue().lanes(1).await.unwrap();
        assert_eq!(behind(&lanes.deepest[0]), "11 messages wait behind it");
        assert_eq!(counted(Queue::Outbox, &lanes), "1 lane has messages in the outbox; none is blocked");
        assert_eq!((blocked(Queue::Outbox, &lanes), at_most(10_000, 10_000)), (None, "10,000+".to_owned()));
    }
}
