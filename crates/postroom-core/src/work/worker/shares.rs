//! How many messages of each place a worker has in progress, so that slow messages do not delay others.
//!
//! A worker takes about a second's work for each place. Once it has that much, the place is left out of claims from the
//! whole queue, and gets separate claims as its work goes on. So one place never fills a worker, whether it is slow or
//! has a million messages waiting.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::queue::Place;

/// The rate of a place is measured over this time.
const WINDOW: Duration = Duration::from_millis(100);
/// A place that has completed nothing for this long gets no more messages.
const STALLED: Duration = Duration::from_secs(1);

/// The messages in progress of a worker, by place.
#[derive(Debug)]
pub(super) struct Shares {
    places: HashMap<Place, Share>,
    batch: usize,
    /// How much of the room one place takes at most, so that there is some for one more batch.
    single: usize,
    /// How many messages may be in progress at a place whose rate is unknown.
    unknown: usize,
    /// The limits for a place that is known to be fast: of a claim, and of messages in progress.
    fast: (usize, usize),
}

#[derive(Debug)]
struct Share {
    held: usize,
    /// The number of messages requested by claims in progress.
    asked: usize,
    /// More messages wait in the queue than may be in progress.
    is_crowded: bool,
    /// How many messages the place may have at once.
    slots: usize,
    since: Instant,
    done: usize,
    last: Instant,
    /// The rate in the previous window.
    per_second: Option<f64>,
}

impl Share {
    fn new(slots: usize, now: Instant) -> Self {
        Self { held: 0, asked: 0, is_crowded: false, slots, since: now, done: 0, last: now, per_second: None }
    }

    #[allow(clippy::cast_precision_loss, reason = "a rate of messages needs no more than 52 bits")]
    fn rate(&self, until: Instant) -> f64 {
        self.done as f64 / until.saturating_duration_since(self.since).max(WINDOW).as_secs_f64()
    }

    /// Returns as many messages as the place completes within about a second.
    fn allowance(&self, (batch, most, unknown): (usize, usize, usize), now: Instant) -> usize {
        let elapsed = now.saturating_duration_since(self.since);
        // With turns, the pace depends on the other stores, so it says something only when it stalls.
        let takes_turns = unknown == usize::MAX;
        let has_done = self.done > 0 && (elapsed >= WINDOW || self.done >= 2 * batch);
        let is_known = elapsed >= STALLED || (has_done && !takes_turns);
        let rate = if is_known { Some(self.rate(now)) } else { self.per_second.filter(|_| !takes_turns) };
        let least = (2 * self.slots).min(batch).max(1);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped, and not below zero")]
        rate.map_or(unknown, |rate| rate.ceil() as usize).clamp(least, most.max(least))
    }

    fn is_done(&mut self, now: Instant) {
        // Many messages end at the same moment, so a window ends between two of them.
        if self.last.saturating_duration_since(self.since) >= WINDOW && now > self.last {
            self.per_second = Some(self.rate(self.last));
            (self.since, self.done) = (self.last, 0);
        }
        self.done += 1;
        self.last = now;
    }
}

impl Shares {
    /// `room` is how many messages may be in progress, apart from those beyond their place's share.
    pub(super) fn new(batch: usize, room: usize) -> Self {
        let single = room.saturating_sub(batch).max(batch);
        Self { places: HashMap::new(), batch, single, unknown: batch, fast: (batch, single) }
    }

    /// Lets claims of a place grow up to that size as the place turns out to be fast. Three of them are in progress
    /// then: one is claimed, one is handled, and one is settled.
    pub(super) fn growing(mut self, large_batch: Option<usize>) -> Self {
        if let Some(large) = large_batch.filter(|large| *large > self.batch) {
            self.fast = (large, self.fast.1.max(3 * large));
        }
        self
    }

    /// Sets the shares of a worker that takes turns with others; the turns limit how much it takes at once.
    pub(super) fn taking_turns(mut self) -> Self {
        self.unknown = usize::MAX;
        self
    }

    /// Returns the batch size, the limit for one place, and the limit for a place whose rate is unknown.
    fn sizes(&self) -> (usize, usize, usize) {
        (self.batch, self.fast.1, self.unknown)
    }

    /// Records that messages of that place were claimed. `slots` is how many it may have at once.
    pub(super) fn take(&mut self, place: &Place, messages: usize, slots: impl FnOnce() -> usize, now: Instant) {
        let sizes = self.sizes();
        if !self.places.contains_key(place) {
            self.places.insert(place.clone(), Share::new(slots(), now));
        }
        let Some(share) = self.places.get_mut(place) else { return };
        // A pause counts only while more messages wait: then it is the time that a claim takes.
        if share.held == 0 && !share.is_crowded {
            (share.since, share.done, share.last) = (now, 0, now);
        }
        share.held += messages;
        share.is_crowded |= share.held >= share.allowance(sizes, now);
    }

    /// Records that a message has ended; `is_done` means that its place dealt with it.
    pub(super) fn give(&mut self, place: &Place, is_done: bool, now: Instant) {
        let Some(share) = self.places.get_mut(place) else { return };
        share.held = share.held.saturating_sub(1);
        if is_done {
            share.is_done(now);
        }
        if share.held == 0 && share.asked == 0 && !share.is_crowded {
            self.places.remove(place);
        }
    }

    /// Returns the places that are left out of claims from the whole queue.
    pub(super) fn crowded(&self) -> Vec<Place> {
        let crowded = self.places.iter().filter(|(_, share)| share.is_crowded);
        crowded.map(|(place, _)| place.clone()).collect()
    }

    /// Returns the number of messages in progress, without those beyond a place's share, so that slow places take no
    /// room.
    pub(super) fn held_within_shares(&self, now: Instant) -> usize {
        let sizes = self.sizes();
        let taken = |share: &Share| share.held.min(share.allowance(sizes, now)).min(self.single);
        self.places.values().map(taken).sum()
    }

    /// Returns a crowded place that may get more messages, and how many.
    pub(super) fn next(&self, now: Instant) -> Option<(Place, usize)> {
        let (largest, sizes) = (self.fast.0, self.sizes());
        let wanted = |share: &Share| {
            let allowance = share.allowance(sizes, now);
            let wanted = allowance.saturating_sub(share.held + share.asked).min(largest);
            (wanted >= (allowance / 2).clamp(1, largest)).then_some(wanted)
        };
        let crowded = self.places.iter().filter(|(_, share)| share.is_crowded);
        let able = crowded.filter_map(|(place, share)| Some((share.held + share.asked, place, wanted(share)?)));
        // The place with the fewest messages comes first.
        able.min_by_key(|(held, place, _)| (*held, *place)).map(|(_, place, wanted)| (place.clone(), wanted))
    }

    /// Records that a claim asks for this many messages of a place.
    pub(super) fn ask(&mut self, place: &Place, wanted: usize) {
        if let Some(share) = self.places.get_mut(place) {
            share.asked += wanted;
        }
    }

    /// Records the result of a claim for that place. If it found less than it asked for, no more messages wait.
    pub(super) fn answered(&mut self, place: &Place, wanted: usize, found: Option<usize>) {
        let Some(share) = self.places.get_mut(place) else { return };
        share.asked = share.asked.saturating_sub(wanted);
        if found.is_some_and(|found| found < wanted) {
            share.is_crowded = false;
        }
        if share.held == 0 && share.asked == 0 && !share.is_crowded {
            self.places.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::clock::monotonic;

    fn place(name: &str) -> Place {
        Place::Topic(name.into())
    }

    fn holding(shares: &mut Shares, name: &str, messages: usize, now: Instant) {
        shares.take(&place(name), messages, || 4, now);
    }

    #[test]
    fn a_slow_place_is_left_out_and_takes_no_room() {
        let (now, mut shares) = (monotonic(), Shares::new(50, 200));
        holding(&mut shares, "slow", 50, now);
        assert_eq!(shares.crowded(), [place("slow")]);
        assert!(shares.next(now).is_none(), "it has its share");
        let later = now + Duration::from_secs(5);
        shares.give(&place("slow"), true, later);
        assert_eq!(shares.held_within_shares(later), 8, "two for each of its slots");
        assert!(shares.next(later).is_none());
    }

    #[test]
    fn claims_grow_even_if_all_messages_end_before_the_next_claim() {
        let (now, mut shares) = (monotonic(), Shares::new(50, 200).growing(Some(500)));
        for _ in 0..2 {
            holding(&mut shares, "fast", 50, now);
            (0..50).for_each(|_| shares.give(&place("fast"), true, now));
        }
        assert_eq!(shares.next(now), Some((place("fast"), 500)));
    }

    #[test]
    fn a_fast_place_is_fetched_for_itself_in_whole_batches() {
        let (now, mut shares) = (monotonic(), Shares::new(50, 200));
        holding(&mut shares, "fast", 50, now);
        let soon = now + WINDOW;
        (0..50).for_each(|_| shares.give(&place("fast"), true, soon));
        assert_eq!(shares.next(soon), Some((place("fast"), 50)));
        shares.ask(&place("fast"), 50);
        assert_eq!(shares.next(soon), Some((place("fast"), 50)), "several claims are under way at once");
        shares.answered(&place("fast"), 50, Some(7));
        assert!(shares.crowded().is_empty(), "no more wait: it is claimed with the whole queue again");
    }

    #[test]
    fn claims_of_a_fast_place_grow_and_those_of_a_slow_one_do_not() {
        let (now, mut shares) = (monotonic(), Shares::new(50, 200).growing(Some(500)));
        holding(&mut shares, "fast", 150, now);
        assert!(shares.next(now).is_none(), "nothing is known of it");
        (0..100).for_each(|_| shares.give(&place("fast"), true, now));
        assert_eq!(shares.next(now), Some((place("fast"), 500)), "a hundred at once are a thousand a second");
        holding(&mut shares, "slow", 50, now);
        let later = now + Duration::from_secs(2);
        (0..10).for_each(|_| shares.give(&place("slow"), true, later));
        assert!(shares.next(later).is_none(), "five a second, and fifty of the other");
    }

    #[test]
    fn places_with_few_messages_are_never_crowded() {
        let (now, mut shares) = (monotonic(), Shares::new(50, 200));
        for name in 0..40 {
            holding(&mut shares, &name.to_string(), 3, now);
        }
        assert!(shares.crowded().is_empty());
        for name in 0..40 {
            (0..3).for_each(|_| shares.give(&place(&name.to_string()), true, now));
        }
        assert_eq!((shares.held_within_shares(now), shares.places.len()), (0, 0), "nothing is left behind");
    }

    #[test]
    fn the_one_with_the_least_is_fetched_first() {
        let (now, mut shares) = (monotonic(), Shares::new(10, 40));
        holding(&mut shares, "a", 10, now);
        holding(&mut shares, "b", 10, now);
        (0..5).for_each(|_| shares.give(&place("a"), true, now));
        (0..9).for_each(|_| shares.give(&place("b"), true, now));
        assert_eq!(shares.next(now).map(|(place, _)| place), Some(place("b")));
    }
}
