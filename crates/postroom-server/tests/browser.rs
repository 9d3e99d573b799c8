//! The admin page of a real node in a real browser. Screenshots go to `target/tests/screenshots`.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "browser/chromium.rs"]
mod chromium;
#[path = "it/desk.rs"]
#[allow(dead_code, reason = "shared with the tests on files")]
mod desk;
#[path = "browser/looks.rs"]
mod looks;
#[path = "browser/walks.rs"]
mod walks;

use chromium::{Browser, VARIABLE};
use desk::{Desk, Running};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

type Test = fn(&mut Stage);

const TESTS: &[(&str, Test)] = &[
    ("a_wrong_token_is_refused_and_a_right_one_lets_in", walks::a_wrong_token_is_refused_and_a_right_one_lets_in),
    ("the_printed_link_lets_in_and_leaves_no_token_behind", walks::the_printed_link_lets_in_and_leaves_no_token_behind),
    ("failures_are_grouped_searched_and_paged", walks::failures_are_grouped_searched_and_paged),
    ("one_message_is_retried_from_its_story", walks::one_message_is_retried_from_its_story),
    ("a_blocked_lane_leads_to_the_message_that_blocks_it", walks::a_blocked_lane_leads_to_its_message),
    ("a_group_is_counted_and_then_retried_slowly", walks::a_group_is_counted_and_then_retried_slowly),
    ("a_group_is_dismissed_with_a_reason_and_one_is_put_back", walks::a_group_is_dismissed_with_a_reason),
    ("a_dialog_at_work_begins_nothing_else", walks::a_dialog_at_work_begins_nothing_else),
    ("a_page_finds_back_to_a_node_that_starts_again", walks::a_page_finds_back_to_a_node_that_starts_again),
    ("a_token_that_is_not_known_any_more_is_asked_for_again", walks::a_token_that_is_not_known_any_more),
    ("what_was_done_is_deleted_after_a_yes", walks::what_was_done_is_deleted_after_a_yes),
    ("a_token_that_may_only_read_sees_no_payload_and_no_buttons", walks::a_token_that_may_only_read),
    ("beyond_this_machine_it_is_reached_by_tls", walks::beyond_this_machine_it_is_reached_by_tls),
    ("everything_is_reached_by_keyboard", walks::everything_is_reached_by_keyboard),
    ("the_charts_move_when_messages_flow", looks::the_charts_move_when_messages_flow),
    ("markup_in_a_message_is_only_text", looks::markup_in_a_message_is_only_text),
    ("nothing_is_wider_than_a_phone", looks::nothing_is_wider_than_a_phone),
    ("it_is_dark_for_those_who_want_it_dark", looks::it_is_dark_for_those_who_want_it_dark),
    ("empty_and_broken_states_have_words", looks::empty_and_broken_states_have_words),
];

fn main() {
    let trials = TESTS.iter().map(|(name, test)| Trial::ignorable_test(*name, trial(*test)));
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

fn trial(test: Test) -> impl FnOnce() -> Result<Completion, Failed> {
    move || {
        if std::env::var_os(VARIABLE).is_none() {
            return Ok(Completion::ignored_with(format!("skipped: {VARIABLE} names no browser")));
        }
        let verdict = std::panic::catch_unwind(|| {
            let mut stage = Stage::new();
            test(&mut stage);
            stage.check_manners();
        });
        verdict.map(|()| Completion::Completed).map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default().into()
        })
    }
}

/// A node with its admin page, and a browser.
struct Stage {
    desk: Desk,
    node: Running,
    browser: Browser,
    /// `http://127.0.0.1:PORT`
    address: String,
    /// The token that the node created: it may do everything.
    token: String,
}

impl Stage {
    fn new() -> Self {
        let desk = Desk::new();
        desk.write("postroom.toml", "[admin]\nlisten = \"127.0.0.1:0\"\n[receiver]\nlisten = []\n");
        let node = desk.start(&["up", "--print"]);
        let told = node.wait_for("Admin page: ");
        let file = told.split_once(", with the token in ").unwrap().1;
        let written = std::fs::read_to_string(file).unwrap();
        let link = written.lines().next().unwrap();
        let (address, token) = link.rsplit_once(' ').unwrap().1.split_once("/admin#token=").unwrap();
        let (address, token) = (address.to_owned(), token.to_owned());
        node.wait_for("Press Ctrl-C to stop.");
        Self { desk, node, browser: Browser::start(), address, token }
    }

    /// Restarts the node with this in `[admin]`; then it accepts the token `secret`.
    fn restart(&mut self, admin: &str) {
        self.node.terminate();
        self.node.end();
        self.desk.write("postroom.toml", &format!("[receiver]\nlisten = []\n[admin]\n{admin}\n"));
        self.node = self.desk.start(&["up", "--print"]);
        let told = self.node.wait_for("Admin page: ");
        self.address = told.split_once("Admin page: ").unwrap().1.split_once("/admin").unwrap().0.to_owned();
        self.token = "secret".into();
    }

    /// Opens a view of the page with the node's own link.
    fn enter(&mut self, view: &str) {
        let link = format!("{}/admin#token={}", self.address, self.token);
        self.browser.open(&link);
        self.browser.until_shown("overview");
        if view != "overview" {
            self.go(view);
        }
    }

    fn go(&mut self, view: &str) {
        self.browser.js(&format!("view.dataset.shown = ''; location.hash = '#/{view}'"));
        self.browser.until_shown(view.split('?').next().unwrap());
    }

    /// Adds this many dead messages with this topic to the outbox, each with an error. `N` in it becomes a number.
    fn give_up(&self, messages: u32, topic: &str, error: &str) {
        let error = error.replace('\'', "''").replace('N', "' || substr(correlation_id, 7) || '");
        self.desk.sql(&format!(
            "BEGIN IMMEDIATE; -- no worker takes them before they are dead
             WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {messages})
             INSERT INTO outbox_messages (id, topic, payload, destination, headers, correlation_id, visible_at)
             SELECT randomblob(16), '{topic}', '{{\"order\":' || n || '}}', 'billing', '{{\"x-shop\":\"north\"}}',
                    'order-' || n, NOW FROM numbers;
             UPDATE outbox_messages_state SET state = 3, visible_at = NULL, attempts = 1, claim_no = 1,
                 last_attempt_at = NOW, last_error = '{error}', processed_at = NOW
             WHERE state = 0 AND topic = '{topic}';
             INSERT INTO outbox_messages_failures (seq, at, attempt, worker, error)
             SELECT seq, processed_at, 1, NULL, last_error FROM outbox_messages_state
             WHERE state = 3 AND seq NOT IN (SELECT seq FROM outbox_messages_failures);
             COMMIT;"
        ));
    }

    /// Checks every walk: no requests to other hosts, no token in a URL, and no errors in the browser.
    fn check_manners(&mut self) {
        let ours = format!("{}/", self.address);
        for request in self.browser.requests() {
            let is_ours = request.starts_with(&ours) || request.starts_with("about:");
            assert!(is_ours, "asked somebody else: {request}");
            assert!(!request.contains(&self.token), "a token was sent in an address");
        }
        assert_eq!(self.browser.complaints(), Vec::<String>::new());
    }
}
