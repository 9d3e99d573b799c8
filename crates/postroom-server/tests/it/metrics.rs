//! The metrics of a node, and the dashboard that shows them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::desk::{Desk, until};
use crate::web::{Asked, DIGEST};

const DASHBOARD: &str = include_str!("../../../../contrib/grafana/postroom.json");
/// The metrics of the SQLite document, and those of lanes.
const NAMES: [&str; 11] = [
    "rf_outbox_pending_count",
    "rf_outbox_send_duration_ms",
    "rf_outbox_retry_count",
    "rf_outbox_failed_count",
    "rf_outbox_expired_count",
    "rf_inbox_duplicate_count",
    "rf_inbox_process_duration_ms",
    "rf_inbox_size",
    "rf_lane_depth",
    "rf_lane_age_seconds",
    "rf_lanes_blocked_count",
];

/// Every metric that the dashboard queries.
fn drawn() -> BTreeSet<String> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let asked = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let asked: Vec<&str> = asked.map(|target| target["expr"].as_str().unwrap()).collect();
    let words = asked.iter().flat_map(|text| text.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_'));
    words.filter(|word| word.starts_with("rf_")).map(str::to_owned).collect()
}

#[test]
fn every_metric_of_the_dashboard_is_there_and_every_name_is_drawn() {
    let desk = Desk::new();
    let admin =
        format!("[admin]\nlisten = \"127.0.0.1:0\"\n[tokens.test]\ndigests = [\"{DIGEST}\"]\nmay = [\"read\"]\n");
    desk.write("postroom.toml", &format!("[receiver]\nlisten = []\n{admin}"));
    let up = desk.start(&["up", "--print"]);
    let node = Asked::read(&up.wait_for("serves the HTTP API at"));
    up.wait_for("Try it in another terminal");
    desk.ok(&["send", "order.placed", "{}"]);
    desk.sql(
        "INSERT INTO inbox_messages (source, message_id, topic, payload, born, visible_at, created_at, last_seen_at)
         VALUES ('shop', 'evt-1', 'order.paid', '{}', 0, NOW, NOW, NOW)",
    );
    let stats = || node.get("/_rf/inbox/stats", Some("secret")).body;
    until("both are done", || desk.outbox("done") == 1 && stats()["done"] == 1);
    assert_eq!(stats()["duplicateRate"], 0.0, "{}", stats());
    let metrics = node.get("/metrics", Some("secret")).text;
    for name in drawn() {
        let is_there = metrics.lines().any(|line| line.strip_prefix(&name).is_some_and(|rest| rest.starts_with('{')));
        assert!(is_there, "{name} is not in\n{metrics}");
    }
    for name in NAMES {
        assert!(drawn().iter().any(|drawn| drawn.starts_with(name)), "{name} is not drawn");
    }
    assert!(metrics.contains(r#"topic="order.placed""#) && metrics.contains(r#"topic="order.paid""#), "{metrics}");
    let is_size = |line: &&str| line.starts_with("rf_inbox_size{");
    assert!(metrics.lines().find(is_size).is_some_and(|line| line.ends_with(" 1")), "what is done is still there");
    assert_eq!(node.get("/metrics", None).status, 401);
}

#[test]
fn what_waits_is_counted_when_somebody_asks() {
    let desk = Desk::new();
    let admin =
        format!("[admin]\nlisten = \"127.0.0.1:0\"\n[tokens.test]\ndigests = [\"{DIGEST}\"]\nmay = [\"read\"]\n");
    desk.write("postroom.toml", &format!("[receiver]\nlisten = []\n{admin}[handlers.\"*\"]\npull = true\n"));
    let up = desk.start(&["up"]);
    let node = Asked::read(&up.wait_for("serves the HTTP API at"));
    desk.ok(&["send", "order.placed", "{}", "--count", "3"]);
    let shown = || node.get("/metrics", Some("secret")).text;
    until("three are shown", || {
        shown().lines().any(|line| line.starts_with("rf_outbox_pending_count{") && line.ends_with(" 3"))
    });
}
