//! Walks through the page: sign in, failed messages, requeue.

use postroom_testbed::Certificate;

use crate::Stage;
use crate::desk::until;

/// `printf %s secret | sha256sum`
const DIGEST: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

pub(crate) fn a_wrong_token_is_refused_and_a_right_one_lets_in(stage: &mut Stage) {
    let (address, token) = (stage.address.clone(), stage.token.clone());
    let browser = &mut stage.browser;
    browser.open(&format!("{address}/"));
    browser.until("location.pathname === '/admin' && document.activeElement.id === 'token'");
    browser.picture("login");
    browser.write("wrong");
    browser.key("Enter");
    browser.until("refused.innerText === 'This token is not valid here.'");
    assert_eq!(browser.js("sessionStorage.length"), 0, "a wrong token is kept");
    assert_eq!(browser.count("#view > *"), 0, "something is shown without a token");
    browser.click("#token");
    browser.write(&token);
    browser.click("#login button");
    browser.until_shown("overview");
    assert_eq!(browser.js("login.hidden && document.cookie === ''"), true);
    browser.click("#leave");
    browser.until("!login.hidden && view.childElementCount === 0");
    assert_eq!(browser.js("sessionStorage.length"), 0, "signed out, and the token is kept");
}

pub(crate) fn the_printed_link_lets_in_and_leaves_no_token_behind(stage: &mut Stage) {
    stage.enter("overview");
    let (browser, address) = (&mut stage.browser, &stage.address);
    assert_eq!(browser.js("location.hash"), "#/overview");
    assert_eq!(browser.js("localStorage.length"), 0);
    browser.open("about:blank");
    browser.open(&format!("{address}/admin"));
    browser.until_shown("overview");
    assert_eq!(browser.text("#view h1"), "Overview");
}

pub(crate) fn failures_are_grouped_searched_and_paged(stage: &mut Stage) {
    stage.give_up(60, "order.placed", "no stock for order N");
    stage.give_up(3, "parcel.sent", "connection refused");
    stage.enter("overview");
    let browser = &mut stage.browser;
    browser.click("a[href=\"#/failed\"]");
    browser.until_shown("failed");
    let groups = "#groups-title";
    browser.until(&format!("document.querySelector('{groups}')"));
    assert_eq!(browser.text("tbody tr:nth-child(1) td.n"), "60");
    assert_eq!(browser.text("tbody tr:nth-child(1) a"), "no stock for order #");
    assert_eq!(browser.text("tbody tr:nth-child(2) a"), "connection refused");
    browser.picture("failed");

    let rows = "section:last-of-type tbody tr";
    assert_eq!(browser.count(rows), 50);
    browser.js("view.dataset.shown = ''");
    browser.click(".pages a:last-child");
    browser.until_shown("failed");
    assert_eq!(browser.count(rows), 13);

    browser.js("view.dataset.shown = ''");
    browser.click("#q");
    browser.write("Refused");
    browser.key("Enter");
    browser.until_shown("failed");
    assert_eq!((browser.count(rows), browser.js("q.value")), (3, "Refused".into()));

    browser.js("view.dataset.shown = ''");
    browser.click("tbody tr:nth-child(1) a");
    browser.until_shown("failed");
    assert_eq!(browser.text(".chosen h2"), "connection refused");
    assert_eq!(browser.count(rows), 3);
    browser.js("view.dataset.shown = ''; history.back()");
    browser.until_shown("failed");
    assert_eq!(browser.js("q.value"), "Refused", "the way back leads to the search");
}

pub(crate) fn one_message_is_retried_from_its_story(stage: &mut Stage) {
    stage.give_up(1, "order.placed", "no stock");
    stage.enter("failed");
    let browser = &mut stage.browser;
    let id = browser.text("a.id");
    browser.click("a.id");
    browser.until_shown("message");
    let story = browser.text("article");
    for part in
        [id.as_str(), "dead", "order.placed", "billing", "order-1", "Attempt 1", "no stock", "north", "{\"order\":1}"]
    {
        assert!(story.contains(part), "no {part}: {story}");
    }
    browser.picture("message");
    browser.click("[data-act]");
    browser.until("preview.innerText === '1 message would be requeued.'");
    assert_eq!(browser.text("#yes"), "Confirm: 1");
    browser.click("#yes");
    browser.until("said.innerText === '1 message was requeued.'");
    until("it was not handled again", || stage.desk.outbox("dead") == 0);
    stage.browser.click("#find-id");
    stage.browser.write(&id);
    stage.browser.key("Enter");
    stage.browser.until_shown("find");
    assert!(stage.browser.text("article").contains(&id));
}

pub(crate) fn a_blocked_lane_leads_to_its_message(stage: &mut Stage) {
    stage.node.terminate();
    stage.node.end();
    stage.node = stage.desk.start(&["up", "--exec", "exit 65"]);
    let id = stage.desk.ok(&["send", "order.paid", "--lane", "order-7"]);
    until("it is dead", || stage.desk.outbox("dead") == 1);
    stage.restart(&format!("listen = \"127.0.0.1:0\"\n[tokens.test]\ndigests = [\"{DIGEST}\"]\nmay = [\"read\"]"));
    for _ in 0..2 {
        stage.desk.ok(&["send", "order.sent", "--lane", "order-7"]);
    }
    stage.enter("overview");
    let browser = &mut stage.browser;
    let lanes = browser.text("section[aria-labelledby=lanes-title]");
    for part in ["order-7", "3", "is dead and blocks the lane", "blocked", &id] {
        assert!(lanes.contains(part), "no {part}: {lanes}");
    }
    browser.picture("lanes");
    browser.click("[data-lane=order-7] a");
    browser.until_shown("message");
    assert!(browser.text("[data-place]").contains("first in lane order-7; 2 messages wait behind it"));
}

pub(crate) fn a_group_is_counted_and_then_retried_slowly(stage: &mut Stage) {
    stage.give_up(5, "order.placed", "no stock for order N");
    stage.give_up(2, "parcel.sent", "connection refused");
    stage.enter("failed");
    let browser = &mut stage.browser;
    browser.click("tbody tr:nth-child(1) [data-act]");
    browser.until("dialog.open && preview.innerText === '5 messages would be requeued.'");
    browser.click("#after");
    browser.write("50s");
    browser.key("Tab");
    browser.write("2");
    browser.key("Tab");
    browser.until("preview.innerText === '5 messages would be requeued; the last one is due in 52s.'");
    browser.picture("dialog");
    assert_eq!(stage.desk.outbox("dead"), 7, "counting changed something");
    let browser = &mut stage.browser;
    browser.click("#yes");
    browser.until("said.innerText === '5 messages were requeued; the last one is due in 52s.'");
    browser.until("view.ariaBusy === 'false' && !view.innerText.includes('no stock')");
    assert_eq!((stage.desk.outbox("dead"), stage.desk.outbox("ready")), (2, 5), "they wait");
    let browser = &mut stage.browser;
    browser.click("section header [data-act]");
    browser.until("preview.innerText === '2 messages would be requeued.'");
    browser.click("#cancel");
    browser.until("!dialog.open");
    assert_eq!(stage.desk.outbox("dead"), 2, "what was not confirmed was done");
}

pub(crate) fn a_group_is_dismissed_with_a_reason(stage: &mut Stage) {
    stage.give_up(5, "order.placed", "no stock for order N");
    stage.give_up(2, "parcel.sent", "connection refused");
    stage.enter("failed");
    let browser = &mut stage.browser;
    browser.picture("failed-with-dismiss");
    browser.click("tbody tr:nth-child(1) [data-act=dismiss]");
    browser.until("dialog.open && preview.innerText === '5 messages would be dismissed.'");
    browser.click("#yes");
    assert_eq!(browser.js("dialog.open && !why.checkValidity()"), true, "a reason is needed");
    browser.click("#why");
    browser.write("orders of the load test");
    browser.key("Tab");
    browser.write("ada");
    assert_eq!(browser.text("#yes"), "Confirm: 5", "a reason changes no count");
    browser.picture("dismiss");
    browser.click("#yes");
    browser.until("said.innerText === '5 messages were dismissed.'");
    browser.until("view.ariaBusy === 'false' && !view.innerText.includes('no stock')");
    assert_eq!((stage.desk.outbox("dead"), stage.desk.outbox("dismissed")), (2, 5));

    let browser = &mut stage.browser;
    browser.click("a[href=\"#/overview\"]");
    browser.until_shown("overview");
    browser.until("document.querySelector('[data-live=\"outbox.dismissed\"]').innerText === '5'");
    browser.picture("overview-with-dismissed");
    browser.click("a[href=\"#/dismissed?queue=outbox\"]");
    browser.until_shown("dismissed");
    assert_eq!(browser.count("tbody tr"), 5);
    let row = browser.text("tbody tr:nth-child(1)");
    assert!(row.contains("ada") && row.contains("orders of the load test"), "{row}");
    browser.picture("dismissed");
    browser.click("tbody tr:nth-child(1) a.id");
    browser.until_shown("message");
    assert!(browser.text("article").contains("orders of the load test"));
    browser.click("[data-act=revive]");
    browser.until("preview.innerText === '1 message would be requeued.'");
    browser.click("#yes");
    browser.until("said.innerText === '1 message was requeued.'");
    until("it is in line again", || stage.desk.outbox("dismissed") == 4);
}

pub(crate) fn a_dialog_at_work_begins_nothing_else(stage: &mut Stage) {
    stage.give_up(2, "order.placed", "no stock");
    stage.give_up(1, "parcel.sent", "connection refused");
    stage.enter("failed");
    let browser = &mut stage.browser;
    // Requests that change something wait until the test releases them.
    browser.js("window.acts = 0; window.real = fetch; window.fetch = (path, options) => {
            if (!options.body || JSON.parse(options.body).dryRun) return real(path, options);
            ++acts;
            return new Promise((go) => window.letGo = () => go(real(path, options)));
        }; 0");
    browser.click("tbody tr:nth-child(1) [data-act]");
    browser.until("dialog.open && !yes.disabled");
    browser.click("#yes");
    browser.until("preview.innerText === 'working…'");
    browser.click("#count");
    browser.click("#yes");
    assert_eq!(browser.js("[preview.innerText, yes.disabled, acts]"), serde_json::json!(["working…", true, 1]));
    browser.key("Escape");
    browser.until("!dialog.open");
    browser.click("tbody tr:nth-child(2) [data-act]");
    browser.until("dialog.open && preview.innerText === '1 message would be requeued.'");
    browser.js("letGo(); 0");
    browser.until("said.innerText === '2 messages were requeued.'");
    assert_eq!(browser.js("dialog.open && yes.innerText === 'Confirm: 1'"), true, "it is open for something else");
    browser.js("window.fetch = real; 0");
    browser.click("#cancel");
    assert_eq!(stage.desk.outbox("dead"), 1);
}

pub(crate) fn a_page_finds_back_to_a_node_that_starts_again(stage: &mut Stage) {
    stage.restart(&format!("listen = \"127.0.0.1:0\"\n[tokens.test]\ndigests = [\"{DIGEST}\"]\nmay = [\"read\"]"));
    stage.enter("overview");
    stage.browser.until("live.innerText === 'live'");
    let listen = stage.address.trim_start_matches("http://").to_owned();
    stage.browser.js("window.wasAway = false; new MutationObserver(() => wasAway ||= live.innerText !== 'live')
        .observe(live, { childList: true })");
    stage.restart(&format!("listen = \"{listen}\"\n[tokens.test]\ndigests = [\"{DIGEST}\"]\nmay = [\"read\"]"));
    stage.browser.until("wasAway && live.innerText === 'live'");
}

pub(crate) fn a_token_that_is_not_known_any_more(stage: &mut Stage) {
    stage.enter("overview");
    stage.browser.until("live.innerText === 'live'");
    let listen = stage.address.trim_start_matches("http://").to_owned();
    stage.restart(&format!("listen = \"{listen}\""));
    stage.browser.until("!login.hidden && refused.innerText === 'This token is not valid here.'");
    assert_eq!(stage.browser.js("sessionStorage.length"), 0, "a token that is of no use is kept");
    stage.browser.open("about:blank");
    let address = stage.address.clone();
    stage.browser.open(&format!("{address}/admin#token=%"));
    stage.browser.until("location.hash === '#/overview' && !login.hidden");
}

pub(crate) fn what_was_done_is_deleted_after_a_yes(stage: &mut Stage) {
    stage.desk.ok(&["send", "order.placed", "{}"]);
    until("it is done", || stage.desk.outbox("done") == 1);
    stage.enter("overview");
    let browser = &mut stage.browser;
    browser.click("[data-act=purge][data-queue=outbox]");
    browser.until("older.value === '7d' && yes.innerText === 'Nothing to do'");
    browser.js("older.select()");
    browser.click("#older");
    browser.js("older.value = ''");
    browser.write("0s");
    browser.click("#count");
    browser.until("preview.innerText === '1 message would be deleted.' && !yes.disabled");
    browser.click("#yes");
    browser.until("said.innerText === '1 message was deleted.'");
    assert_eq!(stage.desk.outbox("done"), 0);
}

pub(crate) fn a_token_that_may_only_read(stage: &mut Stage) {
    stage.give_up(1, "order.placed", "no stock");
    stage.restart(&format!("listen = \"127.0.0.1:0\"\n[tokens.test]\ndigests = [\"{DIGEST}\"]\nmay = [\"read\"]"));
    stage.enter("failed");
    let browser = &mut stage.browser;
    assert_eq!(browser.count("[data-act]"), 0, "a button that would be refused");
    browser.click("a.id");
    browser.until_shown("message");
    let story = browser.text("article");
    assert!(story.contains("hidden, because this token lacks the scope payload"), "{story}");
    assert!(!story.contains("{\"order\"") && !story.contains("north"), "{story}");
}

pub(crate) fn beyond_this_machine_it_is_reached_by_tls(stage: &mut Stage) {
    Certificate::issue(&stage.desk.path("")).unwrap();
    let files = "tls_cert = \"server.pem\"\ntls_key = \"server.key\"\nhosts = [\"localhost\"]";
    let token = format!("[tokens.test]\ndigests = [\"{DIGEST}\"]\nmay = [\"operate\"]");
    stage.restart(&format!("listen = \"0.0.0.0:0\"\n{files}\n{token}"));
    assert!(stage.address.starts_with("https://localhost:"), "{}", stage.address);
    stage.give_up(1, "order.placed", "no stock");
    stage.enter("failed");
    let browser = &mut stage.browser;
    browser.click("[data-group]");
    browser.until("dialog.open && !yes.disabled");
    browser.click("#yes");
    browser.until("said.innerText === '1 message was requeued.'");
    stage.go("overview");
    stage.browser.until("live.innerText === 'live'");
}

pub(crate) fn everything_is_reached_by_keyboard(stage: &mut Stage) {
    stage.give_up(2, "order.placed", "no stock");
    stage.enter("overview");
    let browser = &mut stage.browser;
    browser.key("Tab");
    assert_eq!(browser.js("document.activeElement.className"), "skip", "the first stop leads to the content");
    let is_seen = "document.activeElement.getBoundingClientRect().top >= 0";
    browser.until(is_seen);
    browser.key("Enter");
    browser.until("document.activeElement.id === 'main'");
    browser.js("scrollTo(0, 0); document.querySelector('.skip').focus()");
    for _ in 0..2 {
        browser.key("Tab");
        let outline = "getComputedStyle(document.activeElement).outlineStyle";
        assert_eq!(browser.js(outline), "solid", "the focus cannot be seen");
    }
    browser.key("Enter");
    browser.until_shown("failed");
    tab_to(stage, "[data-group]");
    let browser = &mut stage.browser;
    browser.key("Enter");
    browser.until("dialog.open && dialog.contains(document.activeElement) && !yes.disabled");
    browser.key("Escape");
    browser.until("!dialog.open && document.activeElement.matches('[data-group]')");
    browser.key("Enter");
    browser.until("dialog.open && !yes.disabled");
    tab_to(stage, "#yes");
    stage.browser.key("Enter");
    stage.browser.until("said.innerText.startsWith('2 messages were requeued')");
    until("they are done", || stage.desk.outbox("dead") == 0);
}

/// Presses Tab until an element has the focus.
fn tab_to(stage: &mut Stage, selector: &str) {
    for _ in 0..60 {
        stage.browser.key("Tab");
        if stage.browser.js(&format!("document.activeElement.matches('{selector}')")) == true {
            return;
        }
    }
    panic!("{selector} is not reached by keyboard");
}
