//! Messages that the node posts to a handler's URL.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use postroom::webhooks::WebhookSecret;

use crate::desk::{Desk, Running, until};
use crate::hook::{Hook, said};

/// A node with one handler, for every topic.
fn node(hook: &Hook, more: &str) -> (Desk, Running) {
    let desk = Desk::new();
    let handler = format!("[handlers.\"*\"]\nurl = \"{}\"\n{more}", hook.url());
    desk.write("postroom.toml", &format!("[receiver]\nlisten = []\n{handler}\n"));
    let up = desk.start(&["up"]);
    up.wait_for("Try it in another terminal");
    (desk, up)
}

#[test]
fn a_message_is_posted_with_all_there_is_to_know_and_the_answer_is_kept() {
    let hook = Hook::new(|_, _| said("200 OK", "", r#"{"shelf":3}"#));
    let (desk, _up) = node(&hook, "");
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let traced = format!("traceparent={trace}");
    let more = ["--correlation-id", "c-1", "--header", &traced, "--header", "content-type=text/plain"];
    let id = desk.ok(&[&["send", "order.placed", "teapot"][..], &more].concat());
    let asked = hook.next();
    assert_eq!((asked.line.as_str(), asked.body.as_str()), ("POST /messages HTTP/1.1", "teapot"));
    for (name, value) in [
        ("content-type", "text/plain"),
        ("postroom-message-id", &id),
        ("postroom-topic", "order.placed"),
        ("postroom-attempt", "1"),
        ("postroom-correlation-id", "c-1"),
        ("traceparent", trace),
    ] {
        assert_eq!(asked.headers.get(name).map(String::as_str), Some(value), "{name}: {asked:?}");
    }
    assert!(!asked.headers.contains_key("webhook-signature") && !asked.headers.contains_key("postroom-source"));
    until("it is done", || desk.outbox("done") == 1);
    let story = &desk.json(&["show", &id, "--show-payload"])[0];
    assert_eq!(story["response"], r#"{"shelf":3}"#);

    desk.ok(&["send", "order.placed", "{}"]);
    assert_eq!(hook.next().headers["content-type"], "application/json");
}

#[test]
fn a_refusal_ends_it_with_a_reason_that_is_not_logged() {
    let hook = Hook::new(|_, _| said("422 Unprocessable Entity", "", "no such\n  order"));
    let (desk, mut up) = node(&hook, "");
    let id = desk.ok(&["send", "order.placed", "{}"]);
    until("it is dead", || desk.outbox("dead") == 1);
    let story = &desk.json(&["show", &id])[0];
    assert_eq!(story["last_error"], "it answered 422 Unprocessable Entity\nno such order");
    up.terminate();
    assert_eq!(up.end().code(), Some(0));
    let logged = up.rest_of_stderr();
    assert!(logged.contains("it answered 422") && !logged.contains("no such order"), "{logged}");
}

#[test]
fn only_a_failure_with_the_message_spends_an_attempt() {
    let hook = Hook::new(|nth, _| match nth {
        0 => said("500 Internal Server Error", "", "oops"),
        1 => said("302 Found", "location: /elsewhere\r\n", ""),
        _ => said("204 No Content", "", ""),
    });
    let (desk, _up) = node(&hook, "");
    let id = desk.ok(&["send", "order.placed", "{}"]);
    until("it is done", || desk.outbox("done") == 1);
    let lines = [hook.next(), hook.next(), hook.next()];
    assert!(lines.iter().all(|asked| asked.line.starts_with("POST /messages ")), "no redirect is followed: {lines:?}");
    let story = &desk.json(&["show", &id])[0];
    assert_eq!((&story["attempts"], &story["has_response"]), (&1.into(), &false.into()));
    let [failed, elsewhere] = [&story["failures"][0], &story["failures"][1]];
    assert_eq!(failed["error"], "it answered 500 Internal Server Error\noops", "what the handler said is kept");
    assert_eq!((&failed["code"], &failed["whose"]), (&"handler_failed".into(), &"message".into()));
    assert_eq!(elsewhere["error"], "it answered 302 Found");
    assert_eq!((&elsewhere["code"], &elsewhere["whose"]), (&"unproven".into(), &"place".into()));
}

#[test]
fn who_asks_to_come_back_later_spends_no_attempt() {
    let hook = Hook::new(|nth, _| match nth {
        0 => said("429 Too Many Requests", "retry-after: 1\r\n", ""),
        1 => said("503 Service Unavailable", "retry-after: 1\r\n", ""),
        _ => said("200 OK", "", ""),
    });
    let (desk, _up) = node(&hook, "");
    let id = desk.ok(&["send", "order.placed", "{}", "--max-attempts", "1"]);
    until("it is done", || desk.outbox("done") == 1);
    let story = &desk.json(&["show", &id])[0];
    assert_eq!((&story["attempts"], &story["claims"]), (&0.into(), &3.into()), "{story}");
}

#[test]
fn a_handler_that_does_not_answer_has_failed() {
    let hook = Hook::new(|nth, _| if nth == 0 { None } else { said("200 OK", "", "") });
    let (desk, _up) = node(&hook, "timeout = \"300ms\"");
    let id = desk.ok(&["send", "order.placed", "{}"]);
    until("it is done", || desk.outbox("done") == 1);
    let story = &desk.json(&["show", &id])[0];
    assert_eq!(story["failures"][0]["error"], "no answer within 300ms");
}

#[test]
fn what_is_posted_is_signed() {
    let hook = Hook::new(|_, _| said("200 OK", "", ""));
    let desk = Desk::new();
    let secret = WebhookSecret::generate();
    desk.write("handler.key", &secret);
    let handler = format!("[handlers.\"*\"]\nurl = \"{}\"\nsecret = {{ file = \"handler.key\" }}\n", hook.url());
    desk.write("postroom.toml", &format!("[receiver]\nlisten = []\n{handler}"));
    let _up = desk.start(&["up"]);
    let id = desk.ok(&["send", "order.placed", r#"{"order":7}"#]);
    let asked = hook.next();
    let (named, time) = (&asked.headers["webhook-id"], &asked.headers["webhook-timestamp"]);
    assert_eq!(*named, id);
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let mac = Hmac::<sha2::Sha256>::new_from_slice(&key).unwrap();
    let mac = mac.chain_update(format!("{named}.{time}.{}", asked.body)).finalize().into_bytes();
    assert_eq!(asked.headers["webhook-signature"], format!("v1,{}", STANDARD.encode(mac)));
}

#[test]
fn a_topic_without_a_handler_waits_for_one() {
    let hook = Hook::new(|_, _| said("200 OK", "", ""));
    let desk = Desk::new();
    let handler = |topic: &str| format!("[receiver]\nlisten = []\n[handlers.\"{topic}\"]\nurl = \"{}\"\n", hook.url());
    desk.write("postroom.toml", &handler("order.placed"));
    let up = desk.start(&["up"]);
    let id = desk.ok(&["send", "order.paid", "{}"]);
    up.wait_for("no handler for the topic order.paid");
    until("it is back in line", || desk.outbox("ready") == 1);
    assert_eq!(desk.json(&["show", &id])[0]["attempts"], 0);
    desk.write("postroom.toml", &handler("order.paid"));
    up.hang_up();
    up.wait_for("SIGHUP: reloaded secrets, tokens, sources, services and handlers");
    assert_eq!(hook.next().headers["postroom-topic"], "order.paid");
    until("it is done", || desk.outbox("done") == 1);
}

#[test]
fn a_second_signal_does_not_wait_for_the_handler() {
    let hook = Hook::new(|_, _| None);
    let (desk, mut up) = node(&hook, "");
    desk.ok(&["send", "order.placed", "{}"]);
    hook.next();
    up.terminate();
    up.wait_for("finishing the messages in progress");
    up.terminate();
    assert_eq!(up.end().code(), Some(1));
    assert!(up.rest_of_stderr().contains("stopped at once by a second signal"));
}

#[test]
fn a_handler_gets_no_more_at_once_than_it_should() {
    let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let hook = Hook::new(move |_, _| {
        most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // tidy: time itself, two at once must have the time to meet
        std::thread::sleep(Duration::from_millis(50));
        busy.fetch_sub(1, Ordering::SeqCst);
        said("200 OK", "", "")
    });
    let (desk, _up) = node(&hook, "concurrency = 1");
    desk.ok(&["send", "order.placed", "{}", "--count", "20"]);
    until("all are done", || desk.outbox("done") == 20);
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

#[test]
fn an_answer_that_cannot_be_kept_does_not_undo_what_was_done() {
    let hook = Hook::new(|_, asked| match asked.headers["postroom-topic"].as_str() {
        "long" => said("200 OK", "", &"x".repeat(64 * 1024 + 1)),
        _ => said("200 OK", "", &"x".repeat(64 * 1024)),
    });
    let (desk, up) = node(&hook, "");
    let long = desk.ok(&["send", "long"]);
    up.wait_for("the handler's answer is not stored");
    let fits = desk.ok(&["send", "fits"]);
    until("both are done", || desk.outbox("done") == 2);
    let has_response = |id: &str| desk.json(&["show", id])[0]["has_response"].clone();
    assert_eq!((has_response(&long), has_response(&fits)), (false.into(), true.into()));
}

#[test]
fn a_command_goes_before_the_handlers_of_the_file() {
    let hook = Hook::new(|_, _| said("500 Internal Server Error", "", ""));
    let desk = Desk::new();
    desk.write("postroom.toml", &format!("[receiver]\nlisten = []\n[handlers.\"*\"]\nurl = \"{}\"\n", hook.url()));
    let up = desk.start(&["up", "--exec", "cat"]);
    up.wait_for("ignores [handlers]: --exec overrides them");
    let id = desk.ok(&["send", "order.placed", "teapot"]);
    until("it is done", || desk.outbox("done") == 1);
    assert_eq!(desk.json(&["show", &id, "--show-payload"])[0]["response"], "teapot");
}
