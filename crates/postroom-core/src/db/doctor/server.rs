//! Judges what is the same on every server: its clock, its connections, and whether they are encrypted.

use super::{Facts, Finding, Level};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;

/// How far the server's clock is from this machine's clock. Only times that the user computes depend on this machine's
/// clock.
pub(crate) fn clock(facts: &Facts) -> Option<Finding> {
    let ahead = facts.number("clock.ahead_micros")?;
    let (millis, way) = (ahead.abs() / 1000, if ahead < 0 { "behind" } else { "ahead" });
    let value = format!("{}.{:03} s {way}", millis / 1000, millis % 1000);
    let means =
        "leases and due times follow the server's clock; due times from this machine's clock are off by as much";
    let advice = "let both machines follow a time server (NTP)";
    Some(match ahead.abs() {
        0..=SECOND => Finding::ok("server clock", value, "both clocks agree"),
        ..=MINUTE => Finding::new(Level::Notice, "server clock", value, means, advice),
        _ => Finding::new(Level::Warning, "server clock", value, means, advice),
    })
}

/// How many connections the server allows, how many are in use, and how many this store may need.
pub(crate) fn connections(facts: &Facts) -> Option<Finding> {
    let allowed = facts.number("max_connections")?;
    let (taken, ours) = (taken(facts), facts.number("our.connections").unwrap_or(0));
    let kept = facts.number("superuser_reserved_connections").unwrap_or(0);
    let value = format!("{allowed}, {taken} in use");
    let free = allowed - kept - taken;
    let means = format!("each process opens up to {ours} connections, and {free} are free");
    let advice = "raise it, lower `connections` of the store, or put a pooler in between";
    Some(if free < ours {
        Finding::new(Level::Warning, "max_connections", value, means, advice)
    } else {
        Finding::ok("max_connections", value, means)
    })
}

fn taken(facts: &Facts) -> i64 {
    facts.number("connections").or_else(|| facts.number("threads_connected")).unwrap_or(0)
}

/// Whether the connection is encrypted, so that nobody can read it on the way.
pub(crate) fn encryption(facts: &Facts, advice: &str) -> Option<Finding> {
    let is_on = facts.is_on("tls").or_else(|| facts.is_on("ssl_cipher"))?;
    let client = facts.text("client").unwrap_or("localhost");
    let is_local = client.is_empty() || client == "localhost" || client == "::1" || client.starts_with("127.");
    let value = if is_on { "on" } else { "off" };
    Some(if is_on {
        Finding::ok("encryption", value, "this connection is encrypted")
    } else if is_local {
        Finding::ok("encryption", value, "this connection does not leave the machine")
    } else {
        Finding::new(Level::Notice, "encryption", value, "messages and passwords can be read on the way", advice)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(judge: impl Fn(&Facts) -> Option<Finding>, facts: &Facts) -> Option<Level> {
        judge(facts).map(|finding| finding.level)
    }

    #[test]
    fn clocks_may_differ_by_a_second() {
        for (ahead, expected) in [
            ("0", Level::Ok),
            ("-1000000", Level::Ok),
            ("1000001", Level::Notice),
            ("-60000000", Level::Notice),
            ("60000001", Level::Warning),
        ] {
            assert_eq!(level(clock, &Facts::from([("clock.ahead_micros", ahead)])), Some(expected), "{ahead}");
        }
        let behind = clock(&Facts::from([("clock.ahead_micros", "-2500000")])).unwrap();
        assert_eq!(behind.value, "2.500 s behind");
    }

    #[test]
    fn a_server_without_room_for_us_is_told() {
        for (taken, expected) in [("10", Level::Ok), ("74", Level::Ok), ("75", Level::Warning)] {
            let facts = Facts::from([
                ("max_connections", "100"),
                ("superuser_reserved_connections", "3"),
                ("connections", taken),
                ("our.connections", "23"),
            ]);
            assert_eq!(level(connections, &facts), Some(expected), "{taken}");
        }
    }

    #[test]
    fn only_what_leaves_the_machine_has_to_be_encrypted() {
        for (tls, client, expected) in [
            ("true", "10.0.0.7", Level::Ok),
            ("false", "", Level::Ok),
            ("false", "127.0.0.1", Level::Ok),
            ("false", "10.0.0.7", Level::Notice),
        ] {
            let facts = Facts::from([("tls", tls), ("client", client)]);
            assert_eq!(level(|facts| encryption(facts, "x"), &facts), Some(expected), "{tls} {client}");
        }
    }
}
