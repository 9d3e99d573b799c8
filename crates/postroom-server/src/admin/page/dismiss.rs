//! Dismisses dead letters, and lists dismissed ones.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Query, State};
use postroom::operator::{Failed, Filter, Operator};
use postroom::queue::{Queue, State as Stands};
use serde::Deserialize;

use super::act::{Done, by, chosen};
use super::failed::{Meant, id_of, when};
use super::groups::Looked;
use super::html::Html;
use super::{party_name, queue_of};
use crate::admin::problem::Refusal;
use crate::admin::sight::Sight;
use crate::admin::{Desk, Rights};
use crate::operator::Dismissing;
use crate::output;

const PAGE: usize = 50;

/// Which messages to dismiss, who does it and why.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Dismiss {
    queue: Option<String>,
    /// One message.
    row: Option<i64>,
    /// Those of a group.
    group: Option<String>,
    /// Those with this in their topic, service, error or id.
    q: Option<String>,
    /// All failed messages. It must be given explicitly, so that a missing field never means everything.
    #[serde(default)]
    all: bool,
    by: Option<String>,
    why: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

impl Dismiss {
    /// Returns `None` in a dry run.
    fn dismissal(&self) -> Result<Option<Operator>, Refusal> {
        if self.dry_run {
            return Ok(None);
        }
        let told = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let (Some(by), Some(why)) = (told(&self.by), told(&self.why)) else {
            let advice = "send both; they are stored with each message";
            return Err(Refusal::bad("the fields `by` and `why` are required", advice));
        };
        Ok(Some(Operator::new(by)?.because(why)?))
    }
}

pub(super) async fn dismiss(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    asked: Result<Json<Dismiss>, JsonRejection>,
) -> Result<Json<Done>, Refusal> {
    let Json(mut asked) = asked?;
    // An empty field counts as missing; it must not mean everything.
    asked.group = asked.group.filter(|group| !group.trim().is_empty());
    asked.q = asked.q.filter(|part| !part.trim().is_empty());
    let queue = queue_of(&desk, asked.queue.as_deref())?;
    if !asked.all && asked.row.is_none() && asked.group.is_none() && asked.q.is_none() {
        return Err(Refusal::bad("no messages are selected", "send `row`, `group`, `q`, or `all`: true"));
    }
    let (dismissal, dry_run) = (asked.dismissal()?, asked.dry_run);
    let chosen = chosen(asked.row, asked.group.as_deref(), asked.q.as_deref());
    let doing = {
        let queue = by(queue, &rights, asked.why.as_deref(), &chosen)?;
        async move {
            let dismissing = Dismissing { queue: &queue, dismissal, most: u64::MAX };
            if let Some(row) = asked.row {
                return Ok(Done::dismissed(dismissing.those(&Filter::one(row), |_| true).await?, dry_run, false));
            }
            let sight = Sight::of(&rights);
            let looked = Looked::at(&queue, sight).await?;
            let meant = Meant::new(&looked, asked.group.as_deref(), asked.q.as_deref(), sight)?;
            let count = dismissing.those(&meant.filter(), |failed| meant.is(failed)).await?;
            Ok(Done::dismissed(count, dry_run, looked.is_bounded))
        }
    };
    desk.0.page.act(queue.kind(), dry_run, doing).await.map(Json)
}

/// The part of the list to show.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    queue: Option<String>,
    /// The last row of the page before.
    after: Option<i64>,
}

/// The dismissed messages, with who dismissed them and why.
pub(super) async fn dismissed(
    State(desk): State<Desk>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Html, Refusal> {
    let Query(Asked { queue, after }) = asked?;
    let queue = queue_of(&desk, queue.as_deref())?;
    let _place = desk.0.page.place()?;
    let filter = after.into_iter().fold(Filter::all().state(Stands::Dismissed), Filter::after);
    let mut rows = queue.failed(filter.limit(PAGE + 1)).await?;
    let is_more = rows.len() > PAGE;
    rows.truncate(PAGE);
    let kind = queue.kind();
    let mut html = Html::default();
    html.add("<h1>Dismissed messages</h1><nav class=\"tabs\" aria-label=\"Queue\">", &[]);
    for (name, title) in [("outbox", "Outbox"), ("inbox", "Inbox")] {
        let current = if name == kind.as_str() { "page" } else { "false" };
        html.add("<a href=\"#/dismissed?queue={}\" aria-current=\"{}\">{}</a>", &[&name, &current, &title]);
    }
    html.add("</nav><p class=\"quiet\">Failed messages that an operator dismissed, and messages that a program ", &[]);
    html.add(
        "cancelled. They are deleted after their retention time; until then you can requeue each of them.</p>",
        &[],
    );
    if rows.is_empty() {
        html.add("<p class=\"empty\">The {} has no dismissed messages.</p>", &[&kind]);
        return Ok(html);
    }
    html.append(&table(kind, &rows));
    if let Some(last) = rows.last().filter(|_| is_more) {
        html.add("<nav class=\"pages\" aria-label=\"Pages\"><a class=\"button\" ", &[]);
        html.add("href=\"#/dismissed?queue={}&amp;after={}\">Next page</a></nav>", &[&kind, &last.seq]);
    }
    Ok(html)
}

fn table(queue: Queue, rows: &[Failed]) -> Html {
    let mut html = Html::default();
    html.add("<section aria-label=\"Messages\"><div class=\"wide\"><table class=\"stack\"><thead><tr>", &[]);
    html.add("<th scope=\"col\">Message</th>", &[]);
    html.add("<th scope=\"col\">Topic</th><th scope=\"col\">{}</th>", &[&party_name(queue)]);
    html.add("<th scope=\"col\">Dismissed by</th><th scope=\"col\">Why</th>", &[]);
    html.add("<th scope=\"col\">When</th></tr></thead><tbody>", &[]);
    for row in rows {
        html.add(
            "<tr><td data-label=\"Message\"><a class=\"id\" href=\"#/message?queue={}&amp;row={}\">{}</a></td>",
            &[&queue, &row.seq, &id_of(row)],
        );
        let party = row.party().unwrap_or("–");
        html.add(
            "<td data-label=\"Topic\">{}</td><td data-label=\"{}\">{}</td>",
            &[&row.topic, &party_name(queue), &party],
        );
        let (by, why) = row.dismissal.as_ref().map_or(("–", "–"), |told| (told.who(), told.why().unwrap_or("–")));
        html.add("<td data-label=\"Dismissed by\">{}</td>", &[&by]);
        html.add("<td data-label=\"Why\"><span class=\"clip\">{}</span></td>", &[&output::one_line(why)]);
        html.add("<td data-label=\"When\">", &[]).append(&when(row.at)).add("</td></tr>", &[]);
    }
    html.add("</tbody></table></div></section>", &[]);
    html
}
