use super::*;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);
const START: Timestamp = Timestamp::from_micros(1_771_070_400_000_000);

/// The two clocks of a machine: the wall clock can be set.
struct Machine {
    carried: Carried,
    wall: Timestamp,
    at: Duration,
}

impl Machine {
    fn new() -> Self {
        Self { carried: Carried::new(START, Duration::ZERO), wall: START, at: Duration::ZERO }
    }

    fn pass(&mut self, span: Duration) {
        (self.wall, self.at) = (self.wall.plus(span), self.at + span);
    }

    fn now(&mut self) -> Timestamp {
        self.carried.look(Look { said: self.wall, took: Duration::ZERO, at: self.at });
        self.carried.now(self.at)
    }

    fn state(&self) -> Option<JumpState> {
        self.carried.jump(self.at).map(|jump| jump.state)
    }
}

#[test]
fn time_goes_on_and_small_corrections_are_followed() {
    let mut machine = Machine::new();
    for correction in [0, 4, -4, 5, -5] {
        machine.pass(DAY);
        machine.wall = Timestamp::from_micros(machine.wall.as_micros() + correction * 1_000_000);
        let wall = machine.wall;
        assert_eq!(machine.now(), wall);
    }
    assert_eq!(machine.state(), None);
}

#[test]
fn a_jump_is_followed_after_a_second_look_finds_the_same() {
    for is_ahead in [true, false] {
        let mut machine = Machine::new();
        machine.wall = if is_ahead { START.plus(31 * DAY) } else { START.minus(31 * DAY) };
        assert_eq!(machine.now(), START);
        machine.pass(9 * SECOND);
        assert_eq!(machine.now(), START.plus(9 * SECOND));
        assert_eq!(machine.state(), Some(JumpState::Doubted));
        let (late, early) = (machine.carried.doubt().late(START), machine.carried.doubt().early(START));
        assert_eq!((late, early), (START.max(START.plus(31 * DAY * u32::from(is_ahead))), early.min(START)));
        machine.pass(SECOND);
        let wall = machine.wall;
        assert_eq!(machine.now(), wall);
        assert_eq!((machine.state(), machine.carried.doubt()), (Some(JumpState::Accepted), Doubt::default()));
        assert_eq!(machine.carried.accepted(), 1);
    }
}

#[test]
fn a_jump_that_comes_back_changes_nothing() {
    let mut machine = Machine::new();
    machine.wall = START.plus(31 * DAY);
    machine.now();
    machine.wall = START;
    machine.pass(60 * SECOND);
    assert_eq!(machine.now(), START.plus(60 * SECOND));
    assert_eq!((machine.state(), machine.carried.accepted()), (Some(JumpState::TakenBack), 0));
}

#[test]
fn another_jump_has_to_be_confirmed_anew() {
    let mut machine = Machine::new();
    machine.wall = START.plus(DAY);
    machine.now();
    machine.pass(9 * SECOND);
    machine.wall = machine.wall.plus(DAY);
    machine.now();
    machine.pass(9 * SECOND);
    assert_eq!(machine.now(), START.plus(18 * SECOND));
    machine.pass(SECOND);
    let wall = machine.wall;
    assert_eq!(machine.now(), wall);
}

/// Nobody looked for a day: the clocks of two machines may have drifted apart.
#[test]
fn drift_is_no_jump() {
    let mut machine = Machine::new();
    machine.pass(DAY);
    machine.wall = machine.wall.plus(20 * SECOND);
    let wall = machine.wall;
    assert_eq!((machine.now(), machine.state()), (wall, None));
}

#[test]
fn a_word_that_was_long_under_way_is_no_jump() {
    let mut carried = Carried::new(START, Duration::ZERO);
    carried.look(Look { said: START.plus(SECOND), took: 20 * SECOND, at: 21 * SECOND });
    assert_eq!(carried.jump(21 * SECOND), None);
    carried.look(Look { said: START.plus(SECOND), took: 20 * SECOND, at: 60 * SECOND });
    assert!(carried.jump(60 * SECOND).is_some_and(|jump| !jump.is_ahead));
}

#[test]
fn a_clock_that_jumps_all_the_time_is_told_of_once_a_minute() {
    let (mut machine, mut told) = (Machine::new(), Vec::new());
    for _ in 0..61 {
        for off in [DAY, Duration::ZERO] {
            machine.wall = START.plus(machine.at).plus(off);
            machine.now();
            told.extend(machine.carried.take_news(machine.at).map(|jump| jump.state));
        }
        machine.pass(SECOND);
    }
    let (doubted, back) = (JumpState::Doubted, JumpState::TakenBack);
    assert_eq!(told, [doubted, back, doubted, back]);
}
