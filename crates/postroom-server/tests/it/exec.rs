//! The worker that runs a command.

use rustix::process::{Pid, test_kill_process};

use crate::desk::{Desk, until};

/// Fails in the way that the topic names.
const COMMAND: &str = r#"
    case "$POSTROOM_TOPIC" in
        bad) echo "no such order" >&2; exit 65;;
        flaky) [ "$POSTROOM_ATTEMPT" = 2 ] || { echo "try later" >&2; exit 1; };;
        env) env | grep '^POSTROOM_' | sort;;
        *) cat;;
    esac"#;

fn run_until_settled(desk: &Desk, command: &str) {
    let mut up = desk.start(&["up", "--exec", command]);
    until("nothing waits", || desk.unsettled() == 0);
    up.terminate();
    assert_eq!(up.end().code(), Some(0));
}

#[test]
fn what_a_command_prints_is_the_response() {
    let desk = Desk::new();
    let echo = desk.ok(&["send", "echo", r#"{"order":7}"#]);
    let silent = desk.ok(&["send", "silent"]);
    run_until_settled(&desk, COMMAND);
    let story = &desk.json(&["show", &echo, "--show-payload"])[0];
    assert_eq!((&story["state"], &story["response"]), (&"done".into(), &r#"{"order":7}"#.into()));
    assert_eq!(desk.json(&["show", &silent])[0]["has_response"], false);
    let told = desk.ok(&["show", &echo]);
    assert!(told.contains("response") && !told.contains("order\":7"), "{told}");
}

#[test]
fn a_command_is_told_what_it_handles() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "env", "--correlation-id", "c-1", "--to", "billing"]);
    run_until_settled(&desk, COMMAND);
    let story = &desk.json(&["show", &id, "--show-payload"])[0];
    let wanted = format!(
        "POSTROOM_ATTEMPT=1\nPOSTROOM_CORRELATION_ID=c-1\nPOSTROOM_DESTINATION=billing\nPOSTROOM_MESSAGE_ID={id}\n\
         POSTROOM_QUEUE=outbox\nPOSTROOM_TOPIC=env"
    );
    assert_eq!(story["response"], wanted.as_str());
}

#[test]
fn one_status_kills_and_any_other_tries_again() {
    let desk = Desk::new();
    let bad = desk.ok(&["send", "bad"]);
    let flaky = desk.ok(&["send", "flaky"]);
    run_until_settled(&desk, COMMAND);
    let bad = &desk.json(&["show", &bad])[0];
    assert_eq!((&bad["state"], &bad["last_error"]), (&"dead".into(), &"exit status 65\nno such order".into()));
    let flaky = &desk.json(&["show", &flaky])[0];
    assert_eq!((&flaky["state"], &flaky["attempts"], &flaky["claims"]), (&"done".into(), &1.into(), &2.into()));
    assert_eq!(flaky["failures"][0]["error"], "exit status 1\ntry later");
}

#[test]
fn a_command_that_ignores_its_input_and_leaves_work_behind_is_done() {
    let desk = Desk::new();
    desk.run_with(&["send", "large", "-"], &vec![b'x'; 1 << 20]);
    run_until_settled(&desk, "sleep 3 & exit 0");
    assert_eq!(desk.outbox("done"), 1);
}

#[test]
fn a_command_that_takes_too_long_is_killed_with_all_it_started() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "slow", "--max-attempts", "1"]);
    run_until_settled_with(&desk, &["--timeout", "1s"]);
    let story = &desk.json(&["show", &id])[0];
    assert_eq!(story["state"], "dead");
    assert!(story["last_error"].as_str().unwrap().contains("took longer"), "{story}");
    assert_gone(&desk);
}

/// Starts a child process and waits for it.
const SLOW: &str = "sleep 60 & echo $! > pid; wait";

fn run_until_settled_with(desk: &Desk, options: &[&str]) {
    let _up = desk.start(&[&["up", "--exec", SLOW], options].concat());
    until("nothing waits", || desk.unsettled() == 0);
}

fn assert_gone(desk: &Desk) {
    let text = std::fs::read_to_string(desk.path("pid")).unwrap();
    let pid = Pid::from_raw(text.trim().parse().unwrap()).unwrap();
    until("the command's own process is gone", || test_kill_process(pid).is_err() || is_zombie(pid));
}

/// The process is dead, but no parent may be left to reap it.
fn is_zombie(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('Z') || rest.is_empty())
}

#[test]
fn a_command_whose_lease_is_lost_is_killed() {
    let desk = Desk::new();
    desk.ok(&["send", "slow"]);
    let _up = desk.start(&["up", "--lease", "600ms", "--exec", SLOW]);
    until("the command runs", || std::fs::read_to_string(desk.path("pid")).is_ok_and(|pid| pid.ends_with('\n')));
    let conn = rusqlite::Connection::open(desk.path("postroom.db")).unwrap();
    conn.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    conn.execute("UPDATE outbox_messages_state SET claim_no = claim_no + 1 WHERE state = 1", []).unwrap();
    assert_gone(&desk);
}

#[test]
fn a_drain_lets_the_command_finish_and_a_second_signal_does_not() {
    let desk = Desk::new();
    desk.ok(&["send", "slow"]);
    let mut up = desk.start(&["up", "--exec", "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo finished"]);
    until("the command runs", || desk.path("begun").exists());
    up.terminate();
    up.wait_for("finishing the messages in progress");
    std::fs::write(desk.path("go"), "").unwrap();
    assert_eq!(up.end().code(), Some(0));
    assert_eq!(desk.outbox("done"), 1);

    desk.ok(&["send", "slow"]);
    let mut up = desk.start(&["up", "--exec", SLOW]);
    until("the command runs", || std::fs::read_to_string(desk.path("pid")).is_ok_and(|pid| pid.ends_with('\n')));
    up.terminate();
    up.wait_for("finishing the messages in progress");
    up.terminate();
    assert_eq!(up.end().code(), Some(1));
    assert_gone(&desk);
}

#[test]
fn what_a_command_says_of_a_failure_is_kept_and_not_logged() {
    let desk = Desk::new();
    let id = desk.ok(&["send", "order.placed", "card 4111"]);
    let mut up = desk.start(&["up", "--exec", "cat >&2; exit 65"]);
    until("it is dead", || desk.outbox("dead") == 1);
    up.terminate();
    assert_eq!(up.end().code(), Some(0));
    let logged = up.rest_of_stderr();
    assert!(logged.contains("exit status 65") && !logged.contains("card 4111"), "{logged}");
    assert_eq!(desk.json(&["show", &id])[0]["last_error"], "exit status 65\ncard 4111");
}

#[test]
fn a_command_does_not_get_the_secrets_of_the_node() {
    let desk = Desk::new();
    let source = "[sources.orders]\nkeys = { a = { env = \"PATH_OF_KEY\" } }\n[receiver]\nlisten = []\n";
    desk.write("postroom.toml", source);
    let id = desk.ok(&["send", "any"]);
    let secret = "an example secret, long enough to be one";
    let variables = [("PATH_OF_KEY", secret), ("PGPASSWORD", "tiger"), ("OTHER", "is kept")];
    let mut up = desk.start_with(&["up", "--exec", "env"], &variables);
    until("nothing waits", || desk.unsettled() == 0);
    up.terminate();
    up.end();
    let told = desk.json(&["show", &id, "--show-payload"])[0]["response"].to_string();
    assert!(!told.contains(secret) && !told.contains("tiger") && told.contains("is kept"), "{told}");
}
