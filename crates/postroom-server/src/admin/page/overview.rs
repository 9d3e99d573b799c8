//! The overview: both queues, the charts, and the state of the destinations.

use axum::extract::{Extension, State};
use postroom::operator::{Hold, QueueStats, Rule};
use postroom::queue::Queue;
use postroom::worker::PlaceState;

use tokio::time::Instant;

use super::html::Html;
use super::lanes::{LANES_SHOWN, seen};
use crate::admin::look::{lanes, rules};
use crate::admin::problem::Refusal;
use crate::admin::{Desk, Rights, Scope};
use crate::{duration, output};

pub(super) async fn overview(State(desk): State<Desk>, rights: Extension<Rights>) -> Result<Html, Refusal> {
    let asked_at = Instant::now();
    let (outbox, inbox) = (desk.0.outbox.queue(), desk.0.inbox.queue());
    let queues = [outbox, inbox];
    let (held_out, held_in, lanes) = (outbox.holds(), inbox.holds(), lanes(&queues, LANES_SHOWN));
    let (outbox, inbox, held_out, held_in, rules, lanes) =
        tokio::try_join!(outbox.stats(), inbox.stats(), held_out, held_in, rules(&queues), lanes)?;
    let took = asked_at.elapsed().as_millis();
    let mut html = Html::default();
    html.add("<h1>Overview</h1><p class=\"quiet\">Store <b>{}</b>", &[&desk.0.page.store]);
    html.add(", which answered in {} ms", &[&took]);
    html.add(" · <span id=\"live\" class=\"live\">connecting…</span></p>", &[]);
    if !rights.may(Scope::Operate) {
        html.add("<p class=\"note\">This token can only read, because it lacks the scope <b>operate</b>.</p>", &[]);
    }
    html.append(&ruled(&rules));
    html.append(&holds(&[held_out, held_in].concat()));
    for (queue, stats) in [(Queue::Outbox, &outbox), (Queue::Inbox, &inbox)] {
        html.append(&section(queue, stats, rights.may(Scope::Operate)));
    }
    html.append(&seen(&lanes, rights.may(Scope::Operate), desk.0.page.clock().now()));
    html.append(&destinations(&desk));
    Ok(html)
}

fn section(queue: Queue, stats: &QueueStats, may_write: bool) -> Html {
    let mut html = Html::default();
    let (name, title, what) = match queue {
        Queue::Outbox => ("outbox", "Outbox", "messages that were enqueued here"),
        Queue::Inbox => ("inbox", "Inbox", "messages that arrived from other services"),
    };
    html.add("<section class=\"queue\" aria-labelledby=\"{}-title\">", &[&name]);
    html.add("<header><h2 id=\"{}-title\">{}</h2><p class=\"quiet\">{}</p>", &[&name, &title, &what]);
    if may_write {
        html.add("<div class=\"tools\">", &[]);
        html.add("<button type=\"button\" data-act=\"expire\" data-queue=\"{}\">Expire overdue…</button>", &[&name]);
        html.add("<button type=\"button\" data-act=\"purge\" data-queue=\"{}\">Delete done…</button></div>", &[&name]);
    }
    html.add("</header><dl class=\"numbers\">", &[]);
    let numbers = [
        ("Ready", "ready", stats.ready),
        ("In progress", "leased", stats.leased),
        ("Done", "done", stats.done),
        ("Dead", "dead", stats.dead),
        ("Expired", "expired", stats.expired),
        ("Dismissed", "dismissed", stats.dismissed),
    ];
    for (title, key, number) in numbers {
        let number = output::thousands(number);
        html.add("<div><dt>{}</dt><dd data-live=\"{}.{}\">{}</dd>", &[&title, &name, &key, &number]);
        if key == "dead" {
            html.add("<dd class=\"more\"><a href=\"#/failed?queue={}\">show</a></dd>", &[&name]);
        }
        if key == "dismissed" {
            html.add("<dd class=\"more\"><a href=\"#/dismissed?queue={}\">show</a></dd>", &[&name]);
        }
        html.add("</div>", &[]);
    }
    let oldest = stats.oldest_waiting.map_or_else(|| "–".to_owned(), duration::short);
    html.add("<div><dt>Oldest ready</dt><dd data-live=\"{}.oldest\">{}</dd></div></dl>", &[&name, &oldest]);
    html.add("<div class=\"charts\">", &[]);
    html.append(&chart(name, "rate", "Messages per second", ["in", "out"]));
    html.append(&chart(name, "took", "Time to handle", ["median", "95th percentile"]));
    html.add("</div></section>", &[]);
    html
}

/// An empty chart, which the script fills.
fn chart(queue: &'static str, kind: &'static str, title: &'static str, lines: [&'static str; 2]) -> Html {
    let mut html = Html::default();
    html.add("<figure class=\"chart\" data-chart=\"{}.{}\"><figcaption><span>{}</span>", &[&queue, &kind, &title]);
    for (index, line) in lines.iter().enumerate() {
        html.add("<span class=\"key key{}\">{} <b data-now=\"{}\">–</b></span>", &[&index, line, &index]);
    }
    html.add("</figcaption><svg role=\"img\" aria-label=\"{}, the last ten minutes\"", &[&title]);
    html.add(" viewBox=\"0 0 600 120\" preserveAspectRatio=\"none\"></svg>", &[]);
    html.add("<p class=\"scale quiet\"><span data-top>no data yet</span><span data-span></span></p></figure>", &[]);
    html
}

/// What operators paused or limited.
fn ruled(rules: &[(Queue, Rule)]) -> Html {
    let mut html = Html::default();
    if rules.is_empty() {
        return html;
    }
    html.add("<section class=\"held\" aria-labelledby=\"rules-title\"><header><h2 id=\"rules-title\">", &[]);
    html.add("Pauses and limits</h2><p class=\"quiet\">{}</p></header><ul>", &[&RULED]);
    for (queue, rule) in rules {
        html.add("<li data-rule=\"{}\">{}", &[&rule.scope.name(), &output::rule(*queue, rule)]);
        if rule.paused.is_some() {
            html.add(" <span class=\"badge bad\">paused</span>", &[]);
        }
        html.add("</li>", &[]);
    }
    html.add("</ul></section>", &[]);
    html
}

const RULED: &str = "Operators set these. postroom resume and postroom limit --none remove them.";

/// The open circuit breakers, and the messages they hold.
fn holds(holds: &[Hold]) -> Html {
    let mut html = Html::default();
    if holds.is_empty() {
        return html;
    }
    html.add("<section class=\"held\" aria-labelledby=\"held-title\"><header><h2 id=\"held-title\">", &[]);
    html.add("Open circuit breakers</h2><p class=\"quiet\">{}</p></header><ul>", &[&HELD]);
    for hold in holds {
        html.add("<li data-held=\"{}\">{}", &[&hold.place.name(), &output::waiting(hold)]);
        if let Some(cause) = hold.cause {
            html.add(" <span class=\"badge bad\">{}</span>", &[&cause.code()]);
        }
        html.add("</li>", &[]);
    }
    html.add("</ul></section>", &[]);
    html
}

const HELD: &str = "These messages are held and use no attempts. They continue as soon as one of them succeeds.";

fn destinations(desk: &Desk) -> Html {
    let (page, mut html) = (&desk.0.page, Html::default());
    let ways = page.destinations();
    html.add("<section aria-labelledby=\"ways-title\"><header><h2 id=\"ways-title\">Destinations</h2></header>", &[]);
    if ways.is_empty() {
        let words = "No services are configured. Messages without a destination are handled here.";
        html.add("<p class=\"empty\">{}</p></section>", &[&words]);
        return html;
    }
    html.add("<div class=\"wide\"><table><thead><tr><th scope=\"col\">Service</th><th scope=\"col\">State</th>", &[]);
    html.add("<th scope=\"col\" class=\"n\">In progress</th><th scope=\"col\" class=\"n\">Dedupe window</th>", &[]);
    html.add("</tr></thead><tbody>", &[]);
    for way in &ways {
        let window = way.window.map_or_else(|| "–".to_owned(), duration::short);
        let (class, state) = standing(page.state_of(&way.name).as_ref());
        html.add("<tr data-way=\"{}\"><th scope=\"row\">{}</th>", &[&way.name, &way.name]);
        html.add("<td><span class=\"badge {}\" data-way-state>{}</span></td>", &[&class, &state]);
        html.add("<td class=\"n\" data-way-load>{}</td><td class=\"n\">{}</td></tr>", &[&way.on_the_way, &window]);
    }
    html.add("</tbody></table></div></section>", &[]);
    html
}

/// The state of a destination, as a CSS class and in words.
pub(super) fn standing(state: Option<&PlaceState>) -> (&'static str, String) {
    let failures = state.map_or(0, |state| state.failures);
    let counted = output::count(u64::from(failures), "failure");
    match state.and_then(|state| state.held.as_ref()) {
        Some(held) if held.tried_in.is_zero() => ("bad", format!("circuit open after {counted}; retrying now")),
        Some(held) => ("bad", format!("circuit open after {counted}; next try in {}", duration::short(held.tried_in))),
        None if failures > 0 => ("plain", format!("{counted} in a row")),
        None => ("good", "OK".to_owned()),
    }
}
