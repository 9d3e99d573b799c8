//! What the protocol must survive.

use crate::config::{Config, Look, Policy, Script};
use crate::fault::Fault;
use crate::fault::Fault::{Expire, Fail, Kill, Pause, Retry, Revive, Rollback, Zombie};
use crate::message::Lane::{A, B};
use crate::protocol::Lanes;
use crate::sketch::Sketch;
use crate::verdict::{Case, hold};

const TWO: &[Script] = &[&[A], &[A]];
const THREE: &[Script] = &[&[A], &[A], &[A]];
const FOUR: &[Script] = &[&[A], &[A], &[A], &[A]];
/// Their transactions take two locks in opposite order.
const CROSSWISE: &[Script] = &[&[A, B], &[B, A]];

fn with(scripts: &'static [Script], faults: &[Fault]) -> Config {
    Config::new(scripts).faults(faults)
}

fn case(name: &'static str, config: Config, (states, steps): (usize, usize)) -> Case<Lanes> {
    Case { name, model: Lanes(config), states, steps }
}

#[test]
fn kills_zombies_retries_and_rollbacks() {
    hold(
        &[
            case("three producers, two workers", with(THREE, &[Kill, Rollback]), (35_973, 95_152)),
            case("zombie, kill, retry", with(TWO, &[Kill, Zombie, Retry]), (10_920, 26_524)),
            case("three workers", with(THREE, &[]).workers(3), (12_201, 33_325)),
        ],
        &[
            case("three messages: zombie, kill, retry", with(THREE, &[Kill, Zombie, Retry]), (345_720, 940_713)),
            case("four producers", with(FOUR, &[]), (121_649, 292_492)),
            case("three workers, kill", with(THREE, &[Kill]).workers(3), (53_836, 173_338)),
        ],
    );
}

#[test]
fn looks_of_one_statement() {
    let everything = [Kill, Zombie, Rollback, Retry, Fail, Expire, Revive];
    let one = |scripts, faults| with(scripts, faults).look(Look::OneStatement);
    let serial = with(THREE, &[Kill]).look(Look::Serial);
    hold(
        &[
            case("the look is one statement", one(THREE, &[Kill]), (41_964, 112_706)),
            case("the look is PostgreSQL's REPEATABLE READ", serial, (41_964, 112_706)),
        ],
        &[case("everything a little", one(TWO, &everything), (1_011_872, 2_586_758))],
    );
}

#[test]
fn two_places_at_once() {
    let death = with(THREE, &[Fail]).places(2).look(Look::OneStatement);
    hold(
        &[
            case("two places at once", with(THREE, &[]).places(2), (40_869, 95_205)),
            case("two places, one statement, death", death, (134_153, 300_564)),
            case("two places, retry, kill", with(TWO, &[Retry, Kill]).places(2), (46_970, 119_971)),
        ],
        &[case("two places, kill, retry", with(THREE, &[Kill, Retry]).places(2), (2_908_347, 7_800_451))],
    );
}

#[test]
fn deadlocks_of_producers() {
    let one_statement = with(CROSSWISE, &[]).look(Look::OneStatement);
    hold(
        &[case("two lanes, enqueued crosswise (deadlock)", one_statement, (43_446, 92_826))],
        &[case("two lanes, enqueued crosswise, kill", with(CROSSWISE, &[Kill]), (646_232, 1_709_540))],
    );
}

#[test]
fn deaths_that_are_skipped() {
    let one_statement = with(THREE, &[Fail, Revive]).look(Look::OneStatement);
    hold(
        &[
            case("death skipped, revive", with(TWO, &[Fail, Revive, Kill]), (28_463, 69_562)),
            case("death skipped, revive, one statement", one_statement, (145_178, 331_211)),
        ],
        &[case("three messages: death skipped", with(THREE, &[Fail, Revive, Kill]), (1_793_189, 4_736_772))],
    );
}

#[test]
fn deaths_that_block() {
    let blocks = |scripts, faults| with(scripts, faults).policy(Policy::Block);
    hold(
        &[case("death blocks, revived or given up", blocks(TWO, &[Fail, Revive, Kill]), (63_437, 164_269))],
        &[
            case("three messages: death blocks", blocks(THREE, &[Fail, Revive]), (654_145, 1_537_007)),
            case(
                "death blocks, two places, retry",
                blocks(TWO, &[Fail, Retry, Revive]).places(2),
                (1_239_597, 2_884_788),
            ),
        ],
    );
}

#[test]
fn deaths_after_which_the_newest_wins() {
    let newest = |scripts, faults| with(scripts, faults).policy(Policy::Newest);
    let four = newest(FOUR, &[Fail]).look(Look::OneStatement);
    hold(
        &[case("newest wins", newest(THREE, &[Fail, Kill]), (126_760, 321_840))],
        &[case("newest wins, one statement, four", four, (239_528, 565_868))],
    );
}

#[test]
fn expiry_in_line_and_waiting() {
    let one_statement = with(THREE, &[Expire]).look(Look::OneStatement);
    hold(
        &[case("expiry in line and waiting", one_statement, (56_114, 127_666))],
        &[case("expiry in line and waiting, kill", with(THREE, &[Expire, Kill]), (333_198, 929_832))],
    );
}

#[test]
fn pause_and_resume() {
    let group = |scripts, faults| with(scripts, faults).policy(Policy::SkipInGroup);
    hold(
        &[
            case("pause and resume", with(TWO, &[Pause, Kill]), (16_091, 44_357)),
            case("pause and resume, retry", with(TWO, &[Pause, Retry]), (16_051, 36_746)),
            case("pause and resume of a group", group(&[&[A], &[B]], &[Pause, Kill]), (136_508, 381_934)),
        ],
        &[
            case("three messages: pause and resume", with(THREE, &[Pause, Kill]), (353_275, 1_046_097)),
            case("three messages: a group", group(&[&[A], &[A], &[B]], &[Pause]), (1_064_331, 2_628_042)),
        ],
    );
}

#[test]
fn the_sketch_with_its_second_lock() {
    let name = "sketch: second lock, two statements";
    Case { name, model: Sketch(with(THREE, &[])), states: 155, steps: 272 }.holds();
}
