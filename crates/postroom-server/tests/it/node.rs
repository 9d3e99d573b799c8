//! Two configured nodes that send messages to each other.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};

use postroom::services::Secret;

use crate::desk::{Desk, Running, until};
use crate::hook::{Hook, said};

/// A free port.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// One of two nodes that share keys.
pub(crate) struct End {
    pub(crate) desk: Desk,
    name: &'static str,
    pub(crate) port: u16,
    other: (&'static str, u16),
    pub(crate) more: String,
}

impl End {
    /// The configuration with these keys, each in a file of its name.
    pub(crate) fn configure(&self, keys: &[&str]) {
        let (name, port, (other, other_port), more) = (self.name, self.port, self.other, &self.more);
        let keys: Vec<_> = keys.iter().map(|id| format!("{id} = {{ file = \"{id}.key\" }}")).collect();
        let keys = keys.join(", ");
        self.desk.write(
            "postroom.toml",
            &format!(
                "[node]\nname = \"{name}\"\n[receiver]\nlisten = [\"http://127.0.0.1:{port}\"]\n\
                 [sources.{other}]\nkeys = {{ {keys} }}\n\
                 [services.{other}]\nurl = \"http://127.0.0.1:{other_port}\"\nkeys = {{ {keys} }}\n{more}"
            ),
        );
    }

    pub(crate) fn start(&self) -> Running {
        let up = self.desk.start(&["up"]);
        up.wait_for(&format!("receives at http://127.0.0.1:{} as {}, from {}", self.port, self.name, self.other.0));
        up
    }

    fn reload(&self, up: &Running, keys: &[&str]) {
        self.configure(keys);
        up.hang_up();
        up.wait_for("SIGHUP: reloaded secrets, tokens, sources, services and handlers");
    }

    fn count(&self, what: &str) -> i64 {
        let conn = rusqlite::Connection::open(self.desk.path("postroom.db")).unwrap();
        conn.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        conn.query_row(&format!("SELECT count(*) FROM outbox_messages_state WHERE {what}"), [], |row| row.get(0))
            .unwrap()
    }
}

/// `orders`, which sends, and `inventory`, which has a handler; both have the keys `old` and `new`.
pub(crate) fn two(hook: &Hook) -> (End, End) {
    let (here, there) = (free_port(), free_port());
    let handler = format!("[handlers.\"stock.reserve\"]\nurl = \"{}\"\n", hook.url());
    let end = |name, port, other, more| End { desk: Desk::new(), name, port, other, more };
    let orders = end("orders", here, ("inventory", there), String::new());
    let inventory = end("inventory", there, ("orders", here), handler);
    for id in ["old", "new"] {
        let secret = Secret::generate();
        orders.desk.write(&format!("{id}.key"), &secret);
        inventory.desk.write(&format!("{id}.key"), &secret);
    }
    orders.configure(&["old"]);
    inventory.configure(&["old"]);
    (orders, inventory)
}

#[test]
fn one_sends_the_other_handles_and_the_answer_comes_back() {
    let hook = Hook::new(|_, _| said("200 OK", "", r#"{"shelf":3}"#));
    let (orders, inventory) = two(&hook);
    let (mut here, mut there) = (orders.start(), inventory.start());
    let id = orders.desk.ok(&["send", "stock.reserve", r#"{"item":"teapot"}"#, "--to", "inventory"]);
    let asked = hook.next();
    assert_eq!((asked.headers["postroom-source"].as_str(), asked.body.as_str()), ("orders", r#"{"item":"teapot"}"#));
    assert_eq!(asked.headers["postroom-message-id"], id);
    let answer = || orders.desk.json(&["show", &id, "--show-payload"])[0]["response"].clone();
    until("the answer is there", || answer() == r#"{"shelf":3}"#);
    for up in [&mut here, &mut there] {
        up.terminate();
        assert_eq!(up.end().code(), Some(0));
    }
}

#[test]
fn the_answer_comes_back_to_a_message_that_plain_sql_enqueued() {
    let hook = Hook::new(|_, _| said("200 OK", "", r#"{"shelf":3}"#));
    let (orders, inventory) = two(&hook);
    let (_here, _there) = (orders.start(), inventory.start());
    let columns = "INSERT INTO outbox_messages (topic, payload, kind, destination";
    let command = "'stock.reserve', '{}', 'Command', 'inventory'";
    orders.desk.sql(&format!("{columns}) VALUES ({command})"));
    orders.desk.sql(&format!("{columns}, id) VALUES ({command}, randomblob(16))"));
    orders.desk.sql(&format!("{columns}, message_id) VALUES ({command}, randomblob(16))"));
    until("the answers are there", || orders.count(r#"state = 2 AND response = '{"shelf":3}'"#) == 3);
}

#[test]
fn a_sender_that_retries_for_longer_than_the_receiver_remembers_is_told_on_contact() {
    let hook = Hook::new(|_, _| said("200 OK", "", ""));
    let (orders, inventory) = two(&hook);
    let (here, _there) = (orders.start(), inventory.start());
    orders.desk.ok(&["send", "stock.reserve", "{}", "--to", "inventory", "--expires-in", "40d"]);
    let told = here.wait_for("the destination's dedupe window is shorter than our messages live");
    assert!(told.contains("WARN") && told.contains("inventory"), "{told}");
}

#[test]
fn a_key_is_changed_while_messages_flow_and_nothing_is_refused() {
    let hook = Hook::new(|_, _| said("200 OK", "", ""));
    let (orders, inventory) = two(&hook);
    let (here, there) = (orders.start(), inventory.start());
    let send = || orders.desk.ok(&["send", "stock.reserve", "{}", "--to", "inventory", "--count", "5"]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flow = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                send();
            }
        });
        until("messages flow", || orders.count("state = 2") > 20);
        inventory.reload(&there, &["new", "old"]);
        orders.reload(&here, &["new"]);
        let done = orders.count("state = 2");
        until("messages flow", || orders.count("state = 2") > done + 20);
        is_over.store(true, Ordering::Relaxed);
        flow.join().unwrap();
    });
    until("all have arrived", || orders.count("state <> 2") == 0);
    inventory.reload(&there, &["new"]);
    send();
    until("all have arrived", || orders.count("state <> 2") == 0);
    assert_eq!(orders.count("attempts > 0 OR last_error IS NOT NULL"), 0);
}

#[test]
fn a_broken_configuration_changes_nothing() {
    let hook = Hook::new(|_, _| said("200 OK", "", ""));
    let (orders, inventory) = two(&hook);
    let (_here, there) = (orders.start(), inventory.start());
    inventory.desk.write("postroom.toml", "[node]\nnam = \"inventory\"\n");
    there.hang_up();
    there.wait_for("SIGHUP: the configuration was not reloaded: postroom.toml:2: unknown key `nam` in [node]");
    orders.desk.ok(&["send", "stock.reserve", "{}", "--to", "inventory"]);
    until("it has arrived", || orders.count("state = 2") == 1);
    assert_eq!(hook.next().headers["postroom-source"], "orders");

    inventory.configure(&["missing"]);
    there.hang_up();
    there.wait_for("the key `missing` in [sources.orders]: the secret in");
    orders.desk.ok(&["send", "stock.reserve", "{}", "--to", "inventory"]);
    until("it has arrived", || orders.count("state = 2") == 2);

    // During a rewrite the file may be empty or missing. The defaults would not handle the messages.
    inventory.desk.write("postroom.toml", "");
    there.hang_up();
    there.wait_for("SIGHUP: the configuration was not reloaded: it no longer has any [handlers]");
    std::fs::remove_file(inventory.desk.path("postroom.toml")).unwrap();
    there.hang_up();
    there.wait_for("SIGHUP: the configuration was not reloaded: there is no configuration at postroom.toml");
    orders.desk.ok(&["send", "stock.reserve", "{}", "--to", "inventory"]);
    until("it has arrived", || orders.count("state = 2") == 3);
    // The handler got both, and none was printed.
    for _ in 0..2 {
        assert_eq!(hook.next().headers["postroom-source"], "orders");
    }
}

#[test]
fn what_cannot_be_replaced_is_named() {
    let hook = Hook::new(|_, _| said("200 OK", "", ""));
    let (orders, _) = two(&hook);
    let up = orders.start();
    let text = std::fs::read_to_string(orders.desk.path("postroom.toml")).unwrap();
    orders.desk.write(
        "postroom.toml",
        &format!(
            "{text}\n[worker]\nbatch = 7\n[hooks.github]\nscheme = \"github\"\nsecret = {{ file = \"old.key\" }}\n"
        ),
    );
    up.hang_up();
    up.wait_for("SIGHUP: restart the node to apply [worker] and [hooks.github]");
}

#[test]
fn sources_and_what_they_may_send_change_while_the_node_runs() {
    let hook = Hook::new(|_, _| said("200 OK", "", ""));
    let (orders, inventory) = two(&hook);
    let listening = std::fs::read_to_string(inventory.desk.path("postroom.toml")).unwrap();
    // `orders` is not configured yet.
    inventory.desk.write("postroom.toml", &listening.replace("[sources.orders]", "[sources.billing]"));
    let (here, there) = (orders.start(), inventory.desk.start(&["up"]));
    there.wait_for("from billing");
    let id = orders.desk.ok(&["send", "stock.reserve", "{}", "--to", "inventory"]);
    let error = || orders.desk.json(&["show", &id])[0]["last_error"].to_string();
    until("it is refused", || error().contains("the destination answered 401"));
    let topics = |topic: &str| {
        let named = format!("[sources.orders]\ntopics = [\"{topic}\"]\n");
        inventory.desk.write("postroom.toml", &listening.replace("[sources.orders]\n", &named));
        there.hang_up();
        there.wait_for("SIGHUP: reloaded secrets, tokens, sources, services and handlers");
        // Failed messages are retried at once.
        here.hang_up();
    };
    topics("stock.release");
    until("it is not allowed", || error().contains("this source may not send stock.reserve"));
    topics("stock.*");
    until("it has arrived", || orders.count("state = 2") == 1);
    assert_eq!(hook.next().headers["postroom-source"], "orders");

    // The workers keep the retention from their start.
    let longer = "[retention]\ninbox = \"90d\"\ndismissed = \"90d\"\n[sources.orders]\nwindow = \"60d\"\n";
    inventory.desk.write("postroom.toml", &listening.replace("[sources.orders]\n", longer));
    there.hang_up();
    let why = "[retention] keeps inbox messages for 30d, but the dedupe window is 60d";
    there.wait_for(&format!("SIGHUP: the configuration was not reloaded: {why}"));
}

#[test]
fn a_place_that_is_taken_is_an_error_only_if_it_was_asked_for() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let desk = Desk::new();
    let listen = format!("[receiver]\nlisten = \"http://{}\"\n", taken.local_addr().unwrap());
    desk.write("postroom.toml", &listen);
    let ran = desk.run(&["up"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("`listen` in [receiver]") && ran.stderr.contains("cannot listen at"), "{ran:?}");
}

#[test]
fn a_receiver_that_is_not_queued_answers_at_once() {
    let hook = Hook::new(|_, _| said("200 OK", "", r#"{"shelf":3}"#));
    let (orders, mut inventory) = two(&hook);
    inventory.more = inventory.more.clone() + "\n[retention]\nevery = \"1h\"\n";
    inventory.configure(&["old"]);
    let text = std::fs::read_to_string(inventory.desk.path("postroom.toml")).unwrap();
    inventory.desk.write("postroom.toml", &text.replace("[receiver]\n", "[receiver]\nqueued = false\n"));
    let (_here, _there) = (orders.start(), inventory.start());
    let id = orders.desk.ok(&["send", "stock.reserve", "{}", "--to", "inventory"]);
    until("it is done", || orders.count("state = 2") == 1);
    assert_eq!(orders.desk.json(&["show", &id, "--show-payload"])[0]["response"], r#"{"shelf":3}"#);
    assert_eq!(inventory.count("1 = 1"), 0, "no answer goes another way");
}

#[test]
fn a_source_that_cannot_be_reached_gets_no_answer() {
    let hook = Hook::new(|_, _| said("200 OK", "", r#"{"shelf":3}"#));
    let (orders, inventory) = two(&hook);
    let text = std::fs::read_to_string(inventory.desk.path("postroom.toml")).unwrap();
    let (before, after) = text.split_once("[services.orders]").unwrap();
    let (_, handlers) = after.split_once("[handlers").unwrap();
    inventory.desk.write("postroom.toml", &format!("{before}[handlers{handlers}"));
    let there = inventory.desk.start(&["up"]);
    there.wait_for("note: orders gets no answers, because there is no [services.orders] to send them to");
    let _here = orders.start();
    orders.desk.ok(&["send", "stock.reserve", "{}", "--to", "inventory"]);
    hook.next();
    until("it is done", || inventory.desk.json(&["stats"])["inbox"]["done"] == 1);
    assert_eq!(inventory.count("1 = 1"), 0);
}

#[test]
fn a_webhook_comes_in_and_is_handled() {
    let hook = Hook::new(|_, _| said("200 OK", "", "thanks"));
    let (desk, port) = (Desk::new(), free_port());
    desk.write("github.key", "It's a Secret to Everybody");
    desk.write(
        "postroom.toml",
        &format!(
            "[receiver]\nlisten = \"http://127.0.0.1:{port}\"\n[hooks.github]\nscheme = \"github\"\n\
             secret = {{ file = \"github.key\" }}\n[handlers.\"*\"]\nurl = \"{}\"\n",
            hook.url()
        ),
    );
    let up = desk.start(&["up"]);
    up.wait_for("accepts webhooks at /_rf/hooks/github");
    // The example of GitHub's own documentation.
    let signature = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let body = "Hello, World!";
    let request = format!(
        "POST /_rf/hooks/github HTTP/1.1\r\nhost: localhost\r\nx-github-delivery: d-1\r\nx-github-event: push\r\n\
         x-hub-signature-256: sha256={signature}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    let asked = hook.next();
    assert_eq!((asked.headers["postroom-source"].as_str(), asked.body.as_str()), ("github", body));
    assert_eq!(asked.headers["postroom-topic"], "push");
    until("it is done", || desk.json(&["stats"])["inbox"]["done"] == 1);
    assert_eq!(desk.outbox("total"), 0, "nobody waits for an answer");
}
