//! Lanes: the deepest, those that are blocked, and where a message stands.

use postroom::clock::Timestamp;
use postroom::operator::{Lane, LanePlace, Lanes};
use postroom::queue::Queue;

use super::failed::when;
use super::html::Html;
use crate::lane;

/// The most lanes of each list.
pub(super) const LANES_SHOWN: usize = 10;

const WORDS: &str = "The messages of a lane are handled one after the other: all wait for the first one.";
const UNBLOCK: &str = "A blocked lane goes on when its first message is retried or dismissed.";

/// The lanes in which messages wait for others. Nothing, if none do.
pub(super) fn seen(lanes: &[(Queue, Lanes)], may_cancel: bool, now: Timestamp) -> Html {
    let mut html = Html::default();
    let rows: Vec<_> = lanes.iter().flat_map(|(queue, lanes)| shown(lanes).map(|lane| (*queue, lane))).collect();
    if rows.is_empty() {
        return html;
    }
    html.add("<section aria-labelledby=\"lanes-title\"><header><h2 id=\"lanes-title\">Lanes</h2>", &[]);
    html.add("<p class=\"quiet\">{}</p></header>", &[&WORDS]);
    for (queue, lanes) in lanes.iter().filter(|(_, lanes)| lanes.lanes > 0) {
        html.add("<p>{}.</p>", &[&lane::counted(*queue, lanes)]);
    }
    if rows.iter().any(|(_, lane)| lane.is_blocked()) {
        html.add("<p class=\"note\">{}</p>", &[&UNBLOCK]);
    }
    html.add("<div class=\"wide\"><table><thead><tr><th scope=\"col\">Lane</th><th scope=\"col\">Queue</th>", &[]);
    html.add("<th scope=\"col\" class=\"n\">Messages</th><th scope=\"col\">Since</th>", &[]);
    html.add("<th scope=\"col\">First message</th>", &[]);
    html.add(if may_cancel { "<td></td></tr></thead><tbody>" } else { "</tr></thead><tbody>" }, &[]);
    for (queue, lane) in rows {
        html.append(&row(queue, lane, may_cancel, now));
    }
    html.add("</tbody></table></div></section>", &[]);
    html
}

/// The blocked lanes, and the others in which somebody waits.
fn shown(lanes: &Lanes) -> impl Iterator<Item = &Lane> {
    let others = lanes.deepest.iter().filter(|lane| !lane.is_blocked() && lane.messages > 1);
    lanes.blocked.iter().chain(others)
}

fn row(queue: Queue, lane: &Lane, may_cancel: bool, now: Timestamp) -> Html {
    let mut html = Html::default();
    html.add("<tr data-lane=\"{}\"><th scope=\"row\">{}</th><td>{}</td>", &[&lane.name, &lane.name, &queue]);
    html.add("<td class=\"n\">{}</td><td>", &[&lane::depth(lane)]).append(&when(Some(lane.first.created_at)));
    html.add("</td><td>", &[]).append(&first(queue, lane, now)).add("</td>", &[]);
    if may_cancel {
        html.add("<td><button type=\"button\" data-act=\"cancel\" data-queue=\"{}\"", &[&queue]);
        html.add(" data-lane=\"{}\">Cancel…</button></td>", &[&lane.name]);
    }
    html.add("</tr>", &[]);
    html
}

/// The first message of a lane, as a link, and what it does.
fn first(queue: Queue, lane: &Lane, now: Timestamp) -> Html {
    let (mut html, first) = (Html::default(), &lane.first);
    html.add("<a class=\"id\" href=\"#/message?queue={}&amp;row={}\">", &[&queue, &first.seq]);
    html.add("{}</a> {}", &[&lane::id(queue, first), &lane::doing(first, now)]);
    if lane.is_blocked() {
        html.add(" <span class=\"badge bad\">blocked</span>", &[]);
    }
    html
}

/// Where a message stands in its lane, among its facts.
pub(super) fn place(queue: Queue, place: &LanePlace, now: Timestamp) -> Html {
    let mut html = Html::default();
    html.add("<dt>Place in its lane</dt><dd data-place>{}", &[&lane::place(place)]);
    if place.ahead > 0 {
        html.add(", behind ", &[]).append(&first(queue, &place.lane, now));
    } else if place.lane.messages > 1 {
        html.add("; {}", &[&lane::behind(&place.lane)]);
    }
    html.add("</dd>", &[]);
    html
}
