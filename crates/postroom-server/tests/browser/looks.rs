//! The look of the page: live, on a phone, in dark mode, empty and with errors.

use crate::Stage;

pub(crate) fn the_charts_move_when_messages_flow(stage: &mut Stage) {
    stage.enter("overview");
    let browser = &mut stage.browser;
    browser.until("live.innerText === 'live' && document.querySelector('[data-chart] .line0')?.points.length > 0");
    let line = "document.querySelector('[data-chart=\"outbox.rate\"] .line1').getAttribute('points')";
    let before = browser.js(line);
    for n in 0..5 {
        stage.desk.ok(&["send", "order.placed", &format!("{{\"order\":{n}}}")]);
    }
    let browser = &mut stage.browser;
    browser.until("document.querySelector('[data-live=\"outbox.done\"]').innerText === '5'");
    browser.until(&format!("{line} !== {before}"));
    // Not all points are zero any more.
    let highest =
        "Math.min(...[...document.querySelector('[data-chart=\"outbox.rate\"] .line1').points].map((p) => p.y))";
    browser.until(&format!("{highest} < 100"));
    browser.until("document.querySelector('[data-chart=\"outbox.took\"]').dataset.points.split(' ')[0] > 0");
    browser.picture("light");
}

pub(crate) fn markup_in_a_message_is_only_text(stage: &mut Stage) {
    let evil = "<script>document.title = \"broken\"</script><img src=x onerror=alert(1)>";
    stage.give_up(1, evil, evil);
    stage.enter("failed");
    let scripts = stage.browser.count("script");
    assert!(stage.browser.text("#view").contains("<img src=x onerror=alert(1)>"));
    stage.browser.click("a.id");
    stage.browser.until_shown("message");
    assert!(stage.browser.text("article").contains(evil));
    assert_eq!((stage.browser.count("script"), stage.browser.count("#view img")), (scripts, 0));
    assert_ne!(stage.browser.js("document.title"), "broken");
}

pub(crate) fn nothing_is_wider_than_a_phone(stage: &mut Stage) {
    let long = "a very long error without an end at https://billing.example.com/".repeat(3) + &"x".repeat(150);
    stage.give_up(3, "a.topic.with.a.rather.long.name.that.goes.on", &long);
    stage.browser.width(360, 740);
    stage.enter("overview");
    let wide = "document.scrollingElement.scrollWidth - innerWidth";
    assert_eq!(stage.browser.js(&format!("{wide} <= 0")), true, "the overview is too wide");
    stage.browser.until("live.innerText === 'live'");
    stage.browser.picture("phone");
    stage.go("failed");
    assert_eq!(stage.browser.js(&format!("{wide} <= 0")), true, "the list is too wide");
    stage.browser.picture("phone-failed");
    stage.browser.click("[data-act]");
    stage.browser.until("dialog.open && !yes.disabled");
    assert_eq!(stage.browser.js(&format!("{wide} <= 0")), true, "the dialog is too wide");
    stage.browser.picture("phone-dialog");
    stage.browser.key("Escape");
    stage.browser.click("a.id");
    stage.browser.until_shown("message");
    assert_eq!(stage.browser.js(&format!("{wide} <= 0")), true, "the story is too wide");
    stage.browser.picture("phone-message");
}

pub(crate) fn it_is_dark_for_those_who_want_it_dark(stage: &mut Stage) {
    stage.give_up(4, "order.placed", "no stock for order N");
    stage.enter("failed");
    let ground = "getComputedStyle(document.body).backgroundColor";
    let light = stage.browser.js(ground);
    stage.browser.prefer("dark");
    stage.browser.until(&format!("{ground} !== {light}"));
    stage.browser.picture("dark");
    for scheme in ["dark", "light"] {
        stage.browser.prefer(scheme);
        let poor = stage.browser.js(CONTRAST);
        assert_eq!(poor, serde_json::json!([]), "texts that are hard to read in the {scheme}");
    }
    stage.browser.prefer("dark");
    stage.go("overview");
    stage.browser.until("live.innerText === 'live'");
    stage.browser.picture("dark-overview");
}

/// Texts whose contrast with their background is below 4.5 to 1.
const CONTRAST: &str = "(() => {
    const parse = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
        .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = parse(getComputedStyle(at).backgroundColor);
            if (colour.length < 4 || colour[3] > 0) return colour;
        }
        return [255, 255, 255];
    };
    const texts = [...document.querySelectorAll('body *')].filter((element) => element.checkVisibility()
        && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
    return texts.map((element) => {
        const [a, b] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
        return { text: element.innerText, ratio: (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) };
    }).filter(({ ratio }) => ratio < 4.5);
})()";

pub(crate) fn empty_and_broken_states_have_words(stage: &mut Stage) {
    stage.enter("failed");
    assert!(stage.browser.text("#view").contains("No message has failed in the outbox."));
    stage.browser.picture("empty");
    stage.go("message?row=999");
    assert!(stage.browser.text("[role=alert].trouble").contains("the outbox has no row 999"));
    stage.node.terminate();
    stage.node.end();
    stage.go("failed");
    assert!(stage.browser.text("[role=alert].trouble").contains("the node is unreachable: check that it is running"));
    stage.browser.picture("error");
}
