//! One message: its facts, its attempts and, if the token may see it, its content.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::http::StatusCode;
use postroom::operator::{Failure, Filter, Operator, Record};
use postroom::queue::{Queue, State as Stands, WorkQueue};
use postroom::{InboxKey, Message};
use serde::Deserialize;

use super::failed::when;
use super::html::Html;
use super::{lanes, party_name, queue_of};
use crate::admin::problem::Refusal;
use crate::admin::sight::Sight;
use crate::admin::{Desk, Rights, Scope};
use crate::output;

/// The most rows to show for one id, and the most bytes of each payload.
const FOUND_MAX: usize = 20;
const SHOWN_BYTES_MAX: usize = 64 * 1024;
const HIDDEN: &str = "hidden, because this token lacks the scope payload";
/// The values of headers with one of these in their names are never shown.
const SECRET_NAMES: [&str; 8] = ["auth", "cookie", "token", "secret", "password", "signature", "credential", "key"];

/// A row of a queue.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    queue: Option<String>,
    row: i64,
}

/// The id of a message, from a log line or a support request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    id: String,
}

/// Shows one row.
pub(super) async fn story(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Html, Refusal> {
    let Query(Asked { queue, row }) = asked?;
    let queue = queue_of(&desk, queue.as_deref())?;
    let _place = desk.0.page.place()?;
    let found = queue.list(Filter::one(row)).await?.into_iter().next();
    let Some(record) = found else {
        let advice = "done messages are deleted after their retention time";
        return Err(Refusal::new(StatusCode::NOT_FOUND, format!("the {} has no row {row}", queue.kind()), advice));
    };
    told(&desk, queue, &record, &rights).await
}

/// Shows all rows with an id: one for each destination.
pub(super) async fn find(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Html, Refusal> {
    let Query(Wanted { id }) = wanted?;
    let id = id.trim();
    let _place = desk.0.page.place()?;
    let mut found = Vec::new();
    if let Ok(uuid) = uuid::Uuid::try_parse(id) {
        found.extend(desk.0.outbox.find(uuid).await?.into_iter().map(|record| (desk.0.outbox.queue(), record)));
    }
    if let Some(key) = id.split_once('/').and_then(|(source, id)| InboxKey::new(source, id).ok()) {
        found.extend(desk.0.inbox.get(&key).await?.map(|record| (desk.0.inbox.queue(), record)));
    }
    let mut html = Html::default();
    if found.len() > FOUND_MAX {
        let (shown, all) = (FOUND_MAX, found.len());
        html.add("<p class=\"note\">This page shows the first {} of {} rows with this id.</p>", &[&shown, &all]);
    }
    for (queue, record) in found.iter().take(FOUND_MAX) {
        html.append(&told(&desk, queue, record, &rights).await?);
    }
    if found.is_empty() {
        let advice = "use a UUID for the outbox, or SOURCE/ID for the inbox";
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no message has this id", advice));
    }
    Ok(html)
}

async fn told(desk: &Desk, queue: &WorkQueue, record: &Record, rights: &Rights) -> Result<Html, Refusal> {
    let failures = queue.failures(record.seq()).await?;
    let (kind, message) = (queue.kind(), record.message());
    let id = match message {
        Ok(message) => match message.source() {
            Some(source) => format!("{source}/{}", message.id()),
            None => message.id(),
        },
        Err(_) => format!("unreadable row {}", record.seq()),
    };
    let mut html = Html::default();
    html.add("<article><p class=\"quiet\">{}, row {}</p><h1 class=\"id\">{}</h1>", &[&kind, &record.seq(), &id]);
    let is_over = matches!(record.state(), Stands::Dead | Stands::Expired);
    if is_over && rights.may(Scope::Operate) {
        html.add("<div class=\"tools\"><button type=\"button\" data-act=\"revive\" data-queue=\"{}\"", &[&kind]);
        html.add(" data-row=\"{}\">Retry…</button>", &[&record.seq()]);
        html.add("<button type=\"button\" data-act=\"dismiss\" data-queue=\"{}\"", &[&kind]);
        html.add(" data-row=\"{}\">Dismiss…</button></div>", &[&record.seq()]);
    }
    if matches!(record.state(), Stands::Ready | Stands::Leased) && rights.may(Scope::Operate) {
        html.add("<div class=\"tools\"><button type=\"button\" data-act=\"cancel\" data-queue=\"{}\"", &[&kind]);
        html.add(" data-row=\"{}\">Cancel…</button></div>", &[&record.seq()]);
    }
    if record.state() == Stands::Dismissed && rights.may(Scope::Operate) {
        html.add("<div class=\"tools\"><button type=\"button\" data-act=\"revive\" data-queue=\"{}\"", &[&kind]);
        html.add(" data-row=\"{}\" data-dismissed>Requeue…</button></div>", &[&record.seq()]);
    }
    let place = queue.lane_of(record.seq()).await?;
    let place = place.map(|place| lanes::place(kind, &place, desk.0.page.clock().now())).unwrap_or_default();
    html.append(&facts(kind, record, &place));
    html.append(&attempts(record, &failures, Sight::of(rights)));
    match message {
        Ok(message) => html.append(&content(message, record.response(), rights.may(Scope::Payload))),
        Err(why) => html.add("<p class=\"note\">The row cannot be read as a message: {}</p>", &[&why]),
    };
    html.add("</article>", &[]);
    Ok(html)
}

/// The known facts, in the order in which they happened.
fn facts(queue: Queue, record: &Record, place: &Html) -> Html {
    let message = record.message().ok();
    let mut html = Html::default();
    let class = match record.state() {
        Stands::Done => "good",
        Stands::Dead | Stands::Expired => "bad",
        _ => "plain",
    };
    let state = output::state(record.state());
    html.add("<dl class=\"facts\"><dt>State</dt><dd><span class=\"badge {}\">{}</span></dd>", &[&class, &state]);
    let text = |html: &mut Html, name: &'static str, value: Option<&str>| {
        if let Some(value) = value {
            html.add("<dt>{}</dt><dd>{}</dd>", &[&name, &value]);
        }
    };
    text(&mut html, "Topic", message.map(|message| message.topic.as_str()));
    text(&mut html, "Kind", message.map(|message| message.kind.as_str()));
    text(&mut html, party_name(queue), message.and_then(|message| message.destination().or(message.source())));
    text(&mut html, "Correlation", message.and_then(|message| message.correlation_id.as_deref()));
    text(&mut html, "Lane", message.and_then(|message| message.lane.as_deref()));
    html.append(place);
    let holder = record.owner().map(|owner| format!("worker {owner}"));
    let next = record.visible_at().filter(|_| record.state() == Stands::Ready);
    for (name, at) in [
        ("Created", message.map(|message| message.created_at)),
        ("Due", message.and_then(|message| message.due_at)),
        ("Ready to claim", next),
        ("Last claimed", record.last_attempt_at()),
        ("Leased until", record.locked_until()),
        ("Finished", record.processed_at()),
        ("Expires", record.expires_at()),
    ] {
        if at.is_some() {
            html.add("<dt>{}</dt><dd>", &[&name]).append(&when(at)).add("</dd>", &[]);
        }
    }
    text(&mut html, "Leased by", holder.as_deref());
    let by = record.processed_by().map(|owner| format!("worker {owner}"));
    text(&mut html, "Finished by", by.as_deref());
    text(&mut html, "Dismissed by", record.dismissal().map(Operator::who));
    text(&mut html, "Dismissed because", record.dismissal().and_then(Operator::why));
    let claims = output::count(u64::try_from(record.claim_no()).unwrap_or(0), "time");
    let limit = message.and_then(|message| message.max_attempts).map(|most| format!(" of {most}")).unwrap_or_default();
    html.add("<dt>Attempts</dt><dd>{} failed{}, claimed {}", &[&record.attempts(), &limit, &claims]);
    if record.crashes() > 0 {
        let crashes = output::count(u64::from(record.crashes()), "time");
        html.add(", its worker died {}", &[&crashes]);
    }
    html.add("</dd></dl>", &[]);
    html
}

/// The failed attempts, as far back as they are kept.
fn attempts(record: &Record, failures: &[Failure], sight: Sight) -> Html {
    let mut html = Html::default();
    html.add("<h2>Failed attempts</h2>", &[]);
    if failures.is_empty() {
        match record.last_error() {
            Some(error) => html.add("<pre class=\"error\">{}</pre>", &[&sight.of_error(error)]),
            None => html.add("<p class=\"empty\">None.</p>", &[]),
        };
        return html;
    }
    html.add("<ol class=\"attempts\">", &[]);
    for failure in failures {
        let error = failure.error.as_deref().map_or("no error was recorded", |error| sight.of_error(error));
        html.add("<li><p><b>Attempt {}</b> · ", &[&failure.attempt]).append(&when(Some(failure.at)));
        if let Some(cause) = failure.cause {
            let spent = if cause.whose() == postroom::queue::Whose::Message { "" } else { ", used no attempt" };
            html.add(" · <span class=\"badge plain\">{}{}</span>", &[&cause.code(), &spent]);
        }
        if let Some(worker) = failure.worker {
            html.add(" · <span class=\"quiet\">worker {}</span>", &[&worker]);
        }
        html.add("</p><pre class=\"error\">{}</pre></li>", &[&error]);
    }
    html.add("</ol>", &[]);
    let mut errors = failures.iter().filter_map(|failure| failure.error.as_deref());
    if errors.any(|error| sight.of_error(error) != error) {
        html.add("<p class=\"note\">Only the first line of each error is shown; the rest is {}.</p>", &[&HIDDEN]);
    }
    html
}

/// The headers, payload and answer, if the token may see them.
fn content(message: &Message, response: Option<&str>, is_open: bool) -> Html {
    let mut html = Html::default();
    if !message.headers.is_empty() {
        html.add("<h2>Headers</h2><dl class=\"facts\">", &[]);
        for (name, value) in &message.headers {
            let lower = name.to_lowercase();
            let is_secret = SECRET_NAMES.iter().any(|secret| lower.contains(secret));
            let shown = match (is_open, is_secret) {
                (false, _) => HIDDEN,
                (true, true) => "hidden, because it may be a secret",
                (true, false) => value,
            };
            html.add("<dt>{}</dt><dd>{}</dd>", &[name, &shown]);
        }
        html.add("</dl>", &[]);
    }
    if message.payload_dropped {
        html.add("<h2>Payload</h2><p class=\"empty\">{}</p>", &[&output::PAYLOAD_DROPPED]);
    }
    let payload = (!message.payload_dropped).then_some(message.payload.as_str());
    for (title, text) in [("Payload", payload), ("Answer", response)] {
        let Some(text) = text else { continue };
        let size = output::count(text.len() as u64, "byte");
        html.add("<h2>{} <span class=\"quiet\">{}</span></h2>", &[&title, &size]);
        match is_open {
            true if text.len() > SHOWN_BYTES_MAX => {
                let shown = &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)];
                let most = SHOWN_BYTES_MAX / 1024;
                html.add(
                    "<pre class=\"payload\">{}</pre><p class=\"note\">Only the first {} KiB are shown.</p>",
                    &[&shown, &most],
                )
            }
            true => html.add("<pre class=\"payload\">{}</pre>", &[&text]),
            false => html.add("<p class=\"empty\">{}</p>", &[&HIDDEN]),
        };
    }
    html
}
