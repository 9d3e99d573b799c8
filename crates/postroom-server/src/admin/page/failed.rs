//! The failed messages: in groups and one by one, with a search.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use postroom::clock::Timestamp;
use postroom::message::Origin;
use postroom::operator::{Failed, Filter};
use postroom::queue::{Queue, WorkQueue};
use serde::Deserialize;

use super::groups::{Group, LOOKED_AT_MAX, Looked};
use super::html::{Html, Part};
use super::{party_name, queue_of};
use crate::admin::problem::Refusal;
use crate::admin::sight::Sight;
use crate::admin::{Desk, Rights, Scope};
use crate::output;

const PAGE: usize = 50;
/// The rows per query while searching.
const STEP: usize = 1000;
const GROUPS_SHOWN: usize = 100;
const SEARCH_CHARS_MAX: usize = 200;

/// The search.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    queue: Option<String>,
    /// A group, by its digest.
    group: Option<String>,
    /// A part of the topic, the service, the error or the id.
    q: Option<String>,
    /// The last row of the page before.
    after: Option<i64>,
}

/// A selection of failed messages: by group and by search text.
pub(super) struct Meant {
    group: Option<Group>,
    part: Option<String>,
    first_row: i64,
    sight: Sight,
}

impl Meant {
    /// Refuses an unknown group: it is empty by now, or in another queue.
    pub(super) fn new(looked: &Looked, group: Option<&str>, part: Option<&str>, sight: Sight) -> Result<Self, Refusal> {
        let group = match group {
            None => None,
            Some(digest) => {
                Some(looked.groups.iter().find(|group| group.digest == digest).cloned().ok_or_else(|| {
                    Refusal::new(
                        axum::http::StatusCode::NOT_FOUND,
                        "this group has no messages any more",
                        "go back to all groups",
                    )
                })?)
            }
        };
        let part = part.map(str::trim).filter(|part| !part.is_empty()).map(str::to_lowercase);
        if part.as_ref().is_some_and(|part| part.chars().count() > SEARCH_CHARS_MAX) {
            return Err(Refusal::bad("the search is too long", format!("use at most {SEARCH_CHARS_MAX} characters")));
        }
        let first_row = group.as_ref().map_or(looked.first_row, |group| group.first_row);
        Ok(Self { group, part, first_row, sight })
    }

    /// The part of the selection that the database can apply. An unreadable topic is empty here, but not there.
    pub(super) fn filter(&self) -> Filter {
        let all = Filter::all().after(self.first_row.saturating_sub(1));
        let Some(group) = &self.group else { return all };
        let topic = Some(&group.topic).filter(|topic| !topic.is_empty());
        let filter = topic.into_iter().fold(all, Filter::topic);
        group.party.iter().fold(filter, Filter::party)
    }

    pub(super) fn is(&self, failed: &Failed) -> bool {
        self.group.as_ref().is_none_or(|group| group.has(failed, self.sight))
            && self.part.as_ref().is_none_or(|part| {
                let error = self.sight.words(failed.state, failed.error.as_deref());
                [failed.topic.as_str(), failed.party().unwrap_or_default(), error, &id_of(failed)]
                    .iter()
                    .any(|text| text.to_lowercase().contains(part))
            })
    }
}

/// The id of a message.
pub(super) fn id_of(failed: &Failed) -> String {
    match &failed.origin {
        Some(Origin::Outbox { message_id, .. }) => message_id.to_string(),
        Some(Origin::Inbox { key, .. }) => format!("{}/{}", key.source(), key.message_id()),
        _ => format!("unreadable row {}", failed.seq),
    }
}

pub(super) async fn failed(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Html, Refusal> {
    let Query(mut asked) = asked?;
    asked.group = asked.group.filter(|group| !group.is_empty());
    let queue = queue_of(&desk, asked.queue.as_deref())?;
    let _place = desk.0.page.place()?;
    let sight = Sight::of(&rights);
    let looked = Looked::at(queue, sight).await?;
    let is_gone = asked.group.as_ref().is_some_and(|group| !looked.groups.iter().any(|found| found.digest == *group));
    let mut html = Html::default();
    if is_gone {
        // This is normal right after a retry.
        asked.group = None;
        html.append(&head(queue.kind(), &asked));
        html.add("<p class=\"empty\">This group has no messages any more.</p>", &[]);
        html.add("<p><a href=\"#/failed?queue={}\">← All groups</a></p>", &[&queue.kind()]);
        return Ok(html);
    }
    let meant = Meant::new(&looked, asked.group.as_deref(), asked.q.as_deref(), sight)?;
    html.append(&head(queue.kind(), &asked));
    if looked.messages == 0 {
        html.add("<p class=\"empty\">No message has failed in the {}.</p>", &[&queue.kind()]);
        return Ok(html);
    }
    if looked.is_bounded {
        let most = output::thousands(LOOKED_AT_MAX as u64);
        html.add(
            "<p class=\"note\">There are too many messages: this page shows, searches and retries only the newest {}. ",
            &[&most],
        );
        html.add("Older ones appear as you deal with these.</p>", &[]);
    }
    let (rows, is_more) = page_of(queue, &meant, asked.after).await?;
    match &meant.group {
        Some(group) => html.append(&chosen(queue.kind(), group, &meant, rights.may(Scope::Operate))),
        None => html.append(&table_of_groups(queue.kind(), &looked, &meant, rights.may(Scope::Operate))),
    };
    html.append(&messages(queue.kind(), &rows, &asked, sight, is_more));
    Ok(html)
}

/// The rows of one page, and whether there are more.
async fn page_of(queue: &WorkQueue, meant: &Meant, after: Option<i64>) -> Result<(Vec<Failed>, bool), Refusal> {
    let (mut found, mut after) = (Vec::new(), after.filter(|after| *after >= meant.first_row));
    loop {
        let filter = after.into_iter().fold(meant.filter(), Filter::after).limit(STEP);
        let rows = queue.failed(filter).await?;
        let Some(last) = rows.last().map(|row| row.seq) else { break };
        after = Some(last);
        found.extend(rows.into_iter().filter(|row| meant.is(row)));
        if found.len() > PAGE {
            break;
        }
    }
    let is_more = found.len() > PAGE;
    found.truncate(PAGE);
    Ok((found, is_more))
}

fn head(queue: Queue, asked: &Asked) -> Html {
    let mut html = Html::default();
    html.add("<h1>Failed messages</h1><nav class=\"tabs\" aria-label=\"Queue\">", &[]);
    for (name, title) in [("outbox", "Outbox"), ("inbox", "Inbox")] {
        let current = if name == queue.as_str() { "page" } else { "false" };
        html.add("<a href=\"#/failed?queue={}\" aria-current=\"{}\">{}</a>", &[&name, &current, &title]);
    }
    html.add("</nav><form class=\"search\" role=\"search\" data-go=\"failed\">", &[]);
    html.add("<input type=\"hidden\" name=\"queue\" value=\"{}\">", &[&queue]);
    if let Some(group) = &asked.group {
        html.add("<input type=\"hidden\" name=\"group\" value=\"{}\">", &[group]);
    }
    let part = asked.q.as_deref().unwrap_or_default();
    html.add("<label for=\"q\">Topic, service, error or id contains</label><div class=\"line\">", &[]);
    html.add("<input id=\"q\" name=\"q\" type=\"search\" maxlength=\"{}\" value=\"{}\">", &[&SEARCH_CHARS_MAX, &part]);
    html.add("<button>Search</button></div></form>", &[]);
    html
}

fn table_of_groups(queue: Queue, looked: &Looked, meant: &Meant, may_write: bool) -> Html {
    let mut html = Html::default();
    html.add("<section aria-labelledby=\"groups-title\"><header><h2 id=\"groups-title\">By error</h2>", &[]);
    if may_write {
        html.add("<div class=\"tools\"><button type=\"button\" data-act=\"revive\" data-queue=\"{}\"", &[&queue]);
        let all = output::thousands(looked.messages);
        match &meant.part {
            Some(part) => html.add(" data-q=\"{}\">Retry all that match…</button>", &[part]),
            None => html.add(">Retry all {}…</button>", &[&all]),
        };
        html.add("<button type=\"button\" data-act=\"dismiss\" data-queue=\"{}\"", &[&queue]);
        match &meant.part {
            Some(part) => html.add(" data-q=\"{}\">Dismiss all that match…</button></div>", &[part]),
            None => html.add(">Dismiss all {}…</button></div>", &[&all]),
        };
    }
    html.add("</header>", &[]);
    let part = meant.part.as_deref().unwrap_or_default();
    let has_part = |text: &str| text.to_lowercase().contains(part);
    let matching = looked.groups.iter().filter(|group| {
        has_part(&group.topic) || has_part(&group.text) || group.party.as_deref().is_some_and(has_part)
    });
    let matching: Vec<_> = matching.collect();
    if matching.is_empty() {
        html.add("<p class=\"empty\">No group matches “{}”, but single messages below may.</p></section>", &[&part]);
        return html;
    }
    html.add("<div class=\"wide\"><table class=\"stack\"><thead><tr><th scope=\"col\" class=\"n\">Messages</th>", &[]);
    html.add("<th scope=\"col\">Error</th><th scope=\"col\">Topic</th>", &[]);
    html.add(
        "<th scope=\"col\">{}</th><th scope=\"col\">Last</th><th></th></tr></thead><tbody>",
        &[&party_name(queue)],
    );
    for group in matching.iter().take(GROUPS_SHOWN) {
        html.append(&row_of_group(queue, group, may_write));
    }
    html.add("</tbody></table></div>", &[]);
    if matching.len() > GROUPS_SHOWN {
        let (shown, all) = (GROUPS_SHOWN, matching.len());
        html.add(
            "<p class=\"note\">This list shows the {} largest of {} groups. Use the search to find others.</p>",
            &[&shown, &all],
        );
    }
    html.add("</section>", &[]);
    html
}

fn row_of_group(queue: Queue, group: &Group, may_write: bool) -> Html {
    let mut html = Html::default();
    let messages = output::thousands(group.messages);
    html.add("<tr><td class=\"n\" data-label=\"Messages\">{}</td>", &[&messages]);
    html.add("<td data-label=\"Error\"><a href=\"#/failed?queue={}&amp;group={}\">", &[&queue, &group.digest]);
    html.add("<span class=\"clip\">{}</span></a></td><td data-label=\"Topic\">{}</td>", &[&group.text, &group.topic]);
    let party = group.party.as_deref().unwrap_or("–");
    html.add("<td data-label=\"{}\">{}</td>", &[&party_name(queue), &party]);
    html.add("<td data-label=\"Last\">", &[]).append(&when(group.last_at)).add("</td><td class=\"act\">", &[]);
    if may_write {
        html.append(&buttons(queue, group, None));
    }
    html.add("</td></tr>", &[]);
    html
}

/// The buttons for a group, or for the messages in it that match.
fn buttons(queue: Queue, group: &Group, part: Option<&str>) -> Html {
    let mut html = Html::default();
    html.add(
        "<button type=\"button\" data-act=\"revive\" data-queue=\"{}\" data-group=\"{}\"",
        &[&queue, &group.digest],
    );
    match part {
        Some(part) => html.add(" data-q=\"{}\">Retry all that match…</button> ", &[&part]),
        None => html.add(" aria-label=\"Retry {} messages: {}\">Retry…</button> ", &[&group.messages, &group.text]),
    };
    html.add(
        "<button type=\"button\" data-act=\"dismiss\" data-queue=\"{}\" data-group=\"{}\"",
        &[&queue, &group.digest],
    );
    match part {
        Some(part) => html.add(" data-q=\"{}\">Dismiss all that match…</button>", &[&part]),
        None => html.add(" aria-label=\"Dismiss {} messages: {}\">Dismiss…</button>", &[&group.messages, &group.text]),
    };
    html
}

/// The selected group.
fn chosen(queue: Queue, group: &Group, meant: &Meant, may_write: bool) -> Html {
    let mut html = Html::default();
    html.add("<section class=\"chosen\"><p><a href=\"#/failed?queue={}\">← All groups</a></p>", &[&queue]);
    html.add(
        "<h2>{}</h2><dl class=\"facts\"><dt>Messages</dt><dd>{}</dd>",
        &[&group.text, &output::thousands(group.messages)],
    );
    html.add(
        "<dt>Topic</dt><dd>{}</dd><dt>{}</dt><dd>{}</dd>",
        &[&group.topic, &party_name(queue), &group.party.as_deref().unwrap_or("–")],
    );
    html.add("<dt>First</dt><dd>", &[]).append(&when(group.first_at)).add("</dd><dt>Last</dt><dd>", &[]);
    html.append(&when(group.last_at)).add("</dd></dl>", &[]);
    if may_write {
        html.add("<div class=\"tools\">", &[]).append(&buttons(queue, group, meant.part.as_deref()));
        html.add("</div>", &[]);
    }
    html.add("</section>", &[]);
    html
}

fn messages(queue: Queue, rows: &[Failed], asked: &Asked, sight: Sight, is_more: bool) -> Html {
    let mut html = Html::default();
    html.add("<section aria-labelledby=\"rows-title\"><header><h2 id=\"rows-title\">Messages</h2></header>", &[]);
    if rows.is_empty() {
        html.add("<p class=\"empty\">No message matches.</p></section>", &[]);
        return html;
    }
    html.add("<div class=\"wide\"><table class=\"stack\"><thead><tr><th scope=\"col\">Message</th>", &[]);
    html.add("<th scope=\"col\">Topic</th><th scope=\"col\">{}</th>", &[&party_name(queue)]);
    html.add("<th scope=\"col\" class=\"n\">Attempts</th><th scope=\"col\">Error</th>", &[]);
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
        let error = output::one_line(sight.words(row.state, row.error.as_deref()));
        html.add("<td class=\"n\" data-label=\"Attempts\">{}</td>", &[&row.attempts]);
        html.add("<td data-label=\"Error\"><span class=\"clip\">{}</span></td><td data-label=\"When\">", &[&error]);
        html.append(&when(row.at)).add("</td></tr>", &[]);
    }
    html.add("</tbody></table></div><nav class=\"pages\" aria-label=\"Pages\">", &[]);
    let (group, part) = (asked.group.as_deref().unwrap_or_default(), asked.q.as_deref().unwrap_or_default());
    let mut link = |after: i64, title: &str| {
        let (group, part) = (Part(group), Part(part));
        html.add("<a class=\"button\" href=\"#/failed?queue={}&amp;group={}&amp;q={}", &[&queue, &group, &part]);
        html.add("&amp;after={}\">{}</a>", &[&after, &title]);
    };
    if asked.after.is_some_and(|after| after > 0) {
        link(0, "First page");
    }
    if let Some(last) = rows.last().filter(|_| is_more) {
        link(last.seq, "Next page");
    }
    html.add("</nav></section>", &[]);
    html
}

/// A time; the script adds how long ago it was.
pub(super) fn when(at: Option<Timestamp>) -> Html {
    let mut html = Html::default();
    match at {
        Some(at) => html.add("<time datetime=\"{}\">{}</time>", &[&at, &at]),
        None => html.add("–", &[]),
    };
    html
}
