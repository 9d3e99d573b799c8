//! Lanes, as operators see them: `lanes`, `explain`, `stats`.

use serde_json::{Value, json};

use crate::desk::{Desk, until};

/// Three messages in order-7, the first of which is dead, and one in order-8.
fn desk_with_a_blocked_lane() -> (Desk, Vec<String>) {
    let desk = Desk::new();
    let send = |lane: &str, topic: &str| desk.ok(&["send", topic, "secret", "--lane", lane]);
    let mut ids = vec![send("order-7", "order.paid"), send("order-7", "order.packed"), send("order-7", "order.sent")];
    let mut up = desk.start(&["up", "--exec", "exit 65"]);
    until("the first one is dead", || desk.outbox("dead") == 1);
    up.terminate();
    up.end();
    ids.push(send("order-8", "order.paid"));
    (desk, ids)
}

fn names(lanes: &Value) -> Vec<(&str, u64)> {
    let lanes = lanes["shown"].as_array().unwrap();
    lanes.iter().map(|lane| (lane["name"].as_str().unwrap(), lane["messages"].as_u64().unwrap())).collect()
}

#[test]
fn the_deepest_lanes_come_first_and_a_blocked_one_says_what_to_do() {
    let (desk, ids) = desk_with_a_blocked_lane();
    let lanes = desk.json(&["lanes"]);
    assert_eq!(names(&lanes[0]), [("order-7", 3), ("order-8", 1)]);
    assert_eq!((&lanes[0]["lanes"], &lanes[0]["blocked_lanes"]), (&json!(2), &json!(1)));
    assert_eq!((&lanes[1]["queue"], &lanes[1]["lanes"]), (&json!("inbox"), &json!(0)));
    let first = &lanes[0]["shown"][0]["first"];
    assert_eq!((&first["id"], &first["state"]), (&json!(ids[0]), &json!("dead")));
    let ran = desk.run(&["lanes"]);
    assert!(ran.stdout.starts_with("2 lanes have messages in the outbox; 1 is blocked\n"), "{ran:?}");
    assert!(ran.stdout.contains(&format!("{}  is dead and blocks the lane", ids[0])), "{ran:?}");
    assert!(ran.stdout.contains(&format!("{}  waits for a worker", ids[3])), "{ran:?}");
    assert!(ran.stderr.contains("`postroom revive ID`") && !ran.stdout.contains("inbox"), "{ran:?}");

    assert_eq!(names(&desk.json(&["lanes", "--blocked"])[0]), [("order-7", 3)]);
    assert_eq!(names(&desk.json(&["lanes", "--limit", "1"])[0]), [("order-7", 3)]);
    assert_eq!(desk.json(&["lanes", "--queue", "inbox"]).as_array().unwrap().len(), 1);
    assert_eq!(desk.run(&["lanes", "--limit", "0"]).code, Some(2));
}

#[test]
fn an_empty_answer_says_so() {
    let desk = Desk::new();
    desk.ok(&["send", "order.paid"]);
    for (args, told) in [(&["lanes"][..], "no lane has messages"), (&["lanes", "--blocked"], "no lane is blocked")] {
        let ran = desk.run(args);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.trim()), (Some(0), "", told));
    }
}

#[test]
fn stats_and_explain_name_the_lane_that_is_blocked() {
    let (desk, ids) = desk_with_a_blocked_lane();
    let told = desk.ok(&["stats"]);
    assert!(told.contains("the lane order-7 in the outbox is blocked by a dead message"), "{told}");
    assert_eq!(desk.json(&["stats"])["blocked_lanes"], json!({ "outbox": 1, "inbox": 0 }));

    let third = desk.json(&["explain", &ids[2]]);
    assert_eq!((&third["cause"], &third["lane"]["ahead"]), (&json!("lane-blocked"), &json!(2)));
    let wanted = format!("It is third in lane order-7, behind {}, which is dead and blocks the lane.", ids[0]);
    assert_eq!(third["is"], wanted);
    assert!(desk.ok(&["explain", &ids[2]]).contains(&format!("postroom revive {}", ids[0])));
    let first = desk.json(&["explain", &ids[0]]);
    assert_eq!(first["cause"], "dead");
    assert!(first["next"].as_str().unwrap().contains("blocks lane order-7, where 2 messages wait"), "{first}");

    desk.ok(&["revive", &ids[0]]);
    let third = desk.json(&["explain", &ids[2]]);
    assert_eq!(third["cause"], "in-lane");
    assert!(third["is"].as_str().unwrap().ends_with("which waits for a worker."), "{third}");
    assert_eq!(desk.json(&["lanes", "--blocked"])[0]["blocked_lanes"], 0);
}
