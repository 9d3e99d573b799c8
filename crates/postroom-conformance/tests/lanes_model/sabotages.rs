//! What the protocol must not do without. Each test takes one precaution away, and the search must find what breaks.

use crate::config::{Config, Look, Sabotage, Script};
use crate::fault::Fault::{Expire, Fail, Kill, Pause, Retry, Revive, Zombie};
use crate::message::Lane::A;
use crate::properties::Property;
use crate::protocol::Lanes;
use crate::sketch::Sketch;
use crate::verdict::Case;

const ONE: &[Script] = &[&[A]];
const TWO: &[Script] = &[&[A], &[A]];

fn without(sabotage: Sabotage, scripts: &'static [Script]) -> Config {
    Config::new(scripts).sabotage(sabotage)
}

fn breaks(property: Property, name: &'static str, config: Config, (states, steps): (usize, usize)) {
    Case { name, model: Lanes(config), states, steps }.breaks(property);
}

fn strands_sketch(name: &'static str, config: Config, (states, steps): (usize, usize)) {
    Case { name, model: Sketch(config), states, steps }.breaks(Property::Strand);
}

#[test]
fn producers_need_a_lock() {
    let config = without(Sabotage::NoProducerLock, TWO);
    breaks(Property::Order, "no lock of producers", config, (272, 398));
}

#[test]
fn the_number_is_drawn_under_the_lock() {
    let config = without(Sabotage::NumberBeforeLock, TWO);
    breaks(Property::Order, "number drawn before the lock", config, (190, 292));
}

#[test]
fn the_lock_is_kept_until_the_commit() {
    let config = without(Sabotage::UnlockEarly, TWO);
    breaks(Property::Order, "lock given back before the commit", config, (155, 231));
}

#[test]
fn a_promotion_asks_again() {
    let config = without(Sabotage::NoFence, TWO);
    breaks(Property::Once, "promotion without asking again", config, (234, 379));
}

#[test]
fn heads_that_others_locked_are_seen() {
    let config = without(Sabotage::SkipLockedHeads, TWO).faults(&[Kill]);
    breaks(Property::AtOnce, "heads read with SKIP LOCKED", config, (192, 336));
}

#[test]
fn notes_are_not_newer_than_the_snapshot() {
    let config = Config::new(ONE).look(Look::NewerNotes);
    breaks(Property::Strand, "notes newer than the snapshot (MySQL's REPEATABLE READ)", config, (106, 210));
}

#[test]
fn notes_commit_with_what_they_tell_of() {
    let config = without(Sabotage::NoteBeforeCommit, ONE);
    breaks(Property::Strand, "notes committed before what they tell of", config, (26, 32));
}

#[test]
fn notes_stay_if_a_head_was_not_had() {
    let config = without(Sabotage::ForgetSkipped, TWO).faults(&[Expire, Kill]);
    breaks(Property::Strand, "notes dropped though a head was not had", config, (8_169, 21_165));
}

#[test]
fn notes_of_a_lane_are_not_merged() {
    let config = without(Sabotage::OneNoteForALane, TWO);
    breaks(Property::Strand, "one note for a lane, however many have something to say", config, (79, 122));
}

#[test]
fn whoever_looks_judges_what_died() {
    let config = without(Sabotage::DiedIsAnothers, TWO).faults(&[Fail]);
    breaks(Property::Strand, "what died is judged only by who has its note", config, (712, 1_323));
}

#[test]
fn a_promotion_is_by_number() {
    let config = without(Sabotage::ByMessage, TWO).look(Look::OneStatement).faults(&[Fail, Revive]);
    breaks(Property::AtOnce, "promotion by message instead of number", config, (1_075, 2_016));
}

#[test]
fn a_settle_leaves_a_note() {
    let config = without(Sabotage::SilentSettle, TWO);
    breaks(Property::Strand, "settle leaves no note", config, (107, 180));
}

#[test]
fn what_waits_again_leaves_a_note() {
    let config = without(Sabotage::SilentRetry, ONE).faults(&[Pause, Retry]);
    breaks(Property::Strand, "a retry that waits leaves no note", config, (357, 650));
}

#[test]
fn a_settle_is_fenced_by_its_lease() {
    let config = without(Sabotage::NoLeaseFence, TWO).faults(&[Zombie]);
    breaks(Property::Once, "settle without the lease's fence", config, (163, 261));
}

#[test]
fn a_revived_message_has_a_new_number() {
    let config = without(Sabotage::ReviveOldNumber, TWO).faults(&[Fail, Revive]);
    breaks(Property::AtOnce, "revive under the old number", config, (707, 1_191));
}

#[test]
fn a_resume_leaves_a_note() {
    let config = without(Sabotage::ResumeWithoutNote, ONE).faults(&[Pause]);
    breaks(Property::Strand, "resume without a note", config, (51, 79));
}

#[test]
fn a_resume_of_a_group_commits_before_its_notes() {
    let config = without(Sabotage::ResumeOfGroupAtOnce, ONE).faults(&[Pause]);
    breaks(Property::Strand, "resume of a group in one transaction", config, (216, 383));
}

#[test]
fn the_sketch_needs_its_second_lock() {
    strands_sketch("sketch: without the second lock", without(Sabotage::NoWorkerLock, TWO), (208, 429));
}

#[test]
fn the_sketch_needs_two_statements() {
    strands_sketch("sketch: lock and look in one statement", without(Sabotage::LockAndLookAtOnce, TWO), (179, 299));
}

#[test]
fn the_sketch_needs_read_committed() {
    strands_sketch("sketch: handler in REPEATABLE READ", without(Sabotage::HandlerInRepeatableRead, TWO), (62, 86));
}
