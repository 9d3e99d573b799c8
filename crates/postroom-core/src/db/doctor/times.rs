//! Judges clocks that jumped, and messages whose times came from a wrong clock, in the same way on every database.

use super::{Facts, Finding, Level};

/// Messages that wait for a time that only a wrong clock can have set.
pub(crate) fn ahead(facts: &Facts) -> Option<Finding> {
    let rows = facts.number("times.ahead")?;
    Some(match rows {
        0 => Finding::ok("message times", "in order", "no message waits because a clock was wrong"),
        _ => {
            let means = "they were written while a clock was ahead, and wait for a time that has not come yet";
            let advice = "nothing, if a worker runs: it corrects them when it starts and after the clock has jumped";
            Finding::new(Level::Warning, "message times", format!("{rows} messages ahead"), means, advice)
        }
    })
}

/// A jump that this process has seen.
pub(crate) fn jump(facts: &Facts) -> Option<Finding> {
    let jump = facts.text("clock.jump")?;
    let means = "leases, due times and retention depend on this clock";
    let advice = "let the machine follow a time server (NTP) that does not set its clock in steps";
    Some(Finding::new(Level::Notice, "clock", jump, means, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_wrong_clock_are_counted() {
        assert_eq!(ahead(&Facts::default()), None);
        assert_eq!(ahead(&Facts::from([("times.ahead", "0")])).unwrap().level, Level::Ok);
        let found = ahead(&Facts::from([("times.ahead", "412")])).unwrap();
        assert_eq!((found.level, found.value.as_str()), (Level::Warning, "412 messages ahead"));
    }

    #[test]
    fn a_jump_is_told_if_there_was_one() {
        assert_eq!(jump(&Facts::default()), None);
        assert_eq!(jump(&Facts::from([("clock.jump", "back")])).unwrap().level, Level::Notice);
    }
}
