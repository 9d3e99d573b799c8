//! `postroom send`.

use crate::desk::Desk;

#[test]
fn a_message_is_stored_and_its_id_printed() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "order.placed", r#"{"order":7}"#]);
    assert_eq!(id.len(), 36, "{id}");
    let story = &desk.json(&["show", &id])[0];
    assert_eq!(story["state"], "ready");
    assert_eq!(story["topic"], "order.placed");
    assert_eq!(story["payload_bytes"], 11);
}

#[test]
fn every_option_reaches_the_message() {
    let desk = Desk::new();
    let options = ["--to", "billing", "--correlation-id", "c-1", "--due-in", "1h", "--expires-in", "2h"];
    let more = ["--max-attempts", "3", "--header", "tenant=acme", "--header", "empty="];
    let id = desk.ok(&[&["send", "order.placed", "x"][..], &options, &more].concat());
    let story = &desk.json(&["show", &id, "--show-payload"])[0];
    assert_eq!(story["destination"], "billing");
    assert_eq!(story["correlation_id"], "c-1");
    assert_eq!(story["max_attempts"], 3);
    assert_eq!(story["headers"], serde_json::json!({ "tenant": "acme", "empty": "" }));
    assert_eq!(story["payload"], "x");
    assert!(story["due_at"].as_str() < story["expires_at"].as_str(), "{story}");
    let work_item = story["work_item_id"].as_str().unwrap();
    assert_eq!(desk.json(&["show", work_item])[0]["id"], id.as_str());
}

#[test]
fn a_head_start_is_a_due_time_in_the_past() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "password.reset", "x", "--head-start", "10m"]);
    let story = &desk.json(&["show", &id])[0];
    assert_eq!(story["state"], "ready");
    assert!(story["due_at"].as_str() < story["created_at"].as_str(), "{story}");
}

#[test]
fn the_same_id_is_stored_once() {
    let desk = Desk::new();
    let send = ["send", "a", "--id", "0198c1d4-7a2b-7c3d-8e4f-5a6b7c8d9e0f"];
    assert_eq!(desk.json(&send)["duplicate"], false);
    assert_eq!(desk.json(&send)["duplicate"], true);
    let again = desk.run(&send);
    assert_eq!(again.stdout.trim_end(), "0198c1d4-7a2b-7c3d-8e4f-5a6b7c8d9e0f");
    assert!(again.stderr.contains("nothing was stored"), "{again:?}");
    assert_eq!(desk.outbox("total"), 1);
}

#[test]
fn a_unique_key_is_taken_kept_replaced_or_refused() {
    let desk = Desk::new();
    let first = desk.ok(&["send", "page.index", "--unique-key", "page-7"]);
    let kept_out = desk.run(&["send", "page.index", "--unique-key", "page-7"]);
    assert_eq!((kept_out.code, kept_out.stdout.trim_end()), (Some(0), first.as_str()));
    assert!(kept_out.stderr.contains("this message has the unique key; nothing was stored"), "{kept_out:?}");
    let told = desk.json(&["send", "page.index", "--unique-key", "page-7"]);
    assert_eq!((&told["duplicate"], &told["kept_out_by"]), (&true.into(), &first.as_str().into()));
    let refused = desk.run(&["send", "page.index", "--unique-key", "page-7", "--if-taken", "refuse"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains(&first) && refused.stderr.contains("--if-taken"), "{refused:?}");
    let replacing = ["send", "page.index", "--unique-key", "page-7", "--until-done", "--if-taken", "replace"];
    let told = desk.json(&replacing);
    assert_eq!(told["replaced"], first.as_str());
    let told =
        desk.run(&["send", "page.index", "--unique-key", "page-7", "--unique-for", "1h", "--if-taken", "replace"]);
    assert!(told.stderr.contains("waited under the same unique key"), "{told:?}");
    assert_eq!((desk.outbox("ready"), desk.outbox("dismissed")), (1, 2));
    let unknown = desk.run(&["cancel", "--unique-key", "page-8"]);
    assert!(unknown.code == Some(1) && unknown.stderr.contains("no message has the unique key page-8"), "{unknown:?}");
    assert_eq!(desk.ok(&["cancel", "--unique-key", "page-7"]), "1 message cancelled");
    assert_eq!(desk.outbox("ready"), 0);
}

#[test]
fn a_count_sends_as_many_with_ids_of_their_own() {
    let desk = Desk::new();
    let ids = desk.ok(&["send", "a", "--count", "2001"]);
    let ids: std::collections::HashSet<_> = ids.lines().collect();
    assert_eq!(ids.len(), 2001);
    assert_eq!(desk.outbox("ready"), 2001);
}

#[test]
fn a_dash_reads_the_payload_from_stdin() {
    let desk = Desk::new();
    let ran = desk.run_with(&["send", "a", "-"], "zwölf\n".as_bytes());
    let story = &desk.json(&["show", ran.stdout.trim_end(), "--show-payload"])[0];
    assert_eq!(story["payload"], "zwölf\n");
    let binary = desk.run_with(&["send", "a", "-"], &[0xff, 0xfe]);
    assert_eq!(binary.code, Some(1));
    assert!(binary.stderr.contains("not UTF-8") && binary.stderr.contains("base64"), "{binary:?}");
}

#[test]
fn a_kind_can_be_said_and_a_wrong_one_is_told_which_there_are() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "stock.reserve", "{}", "--to", "inventory", "--kind", "Command"]);
    assert_eq!(desk.json(&["show", &id])[0]["kind"], "Command");
    let ran = desk.run(&["send", "stock.reserve", "--kind", "command"]);
    assert!(ran.stderr.contains("Event, Signal, Command, PushCall, Response"), "{ran:?}");
    let ran = desk.run(&["send", "a", "--to", "Bad Name"]);
    assert!(ran.stderr.contains("destination must be 1 to 64 of a-z"), "{ran:?}");
}
