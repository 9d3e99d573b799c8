//! The audit trail: what operators did and why.

use axum::extract::State;
use postroom::operator::Audited;
use postroom::queue::Queue;

use super::failed::when;
use super::html::Html;
use crate::admin::Desk;
use crate::admin::problem::Refusal;
use crate::output;

/// The most entries of each queue.
const SHOWN: usize = 200;

pub(super) async fn trail(State(desk): State<Desk>) -> Result<Html, Refusal> {
    let _place = desk.0.page.place()?;
    let (outbox, inbox) = tokio::try_join!(desk.0.outbox.queue().audit(SHOWN), desk.0.inbox.queue().audit(SHOWN))?;
    let of = |queue| move |entry| (queue, entry);
    let mut entries: Vec<(Queue, Audited)> = outbox.into_iter().map(of(Queue::Outbox)).collect();
    entries.extend(inbox.into_iter().map(of(Queue::Inbox)));
    entries.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.at()));
    let mut html = Html::default();
    html.add(
        "<h1>Audit trail</h1><p class=\"quiet\">Changes that people made to messages by hand, newest first. Changes ",
        &[],
    );
    html.add("from this page and over HTTP show the name of the token; the command line shows the user.</p>", &[]);
    if entries.is_empty() {
        html.add("<p class=\"empty\">Nobody has changed messages by hand.</p>", &[]);
        return Ok(html);
    }
    html.append(&table(&entries));
    Ok(html)
}

fn table(entries: &[(Queue, Audited)]) -> Html {
    let mut html = Html::default();
    html.add("<section aria-label=\"Entries\"><div class=\"wide\"><table class=\"stack\"><thead><tr>", &[]);
    for title in ["When", "Who", "What", "Messages", "Which", "Why"] {
        html.add("<th scope=\"col\">{}</th>", &[&title]);
    }
    html.add("</tr></thead><tbody>", &[]);
    for (queue, entry) in entries {
        html.add("<tr><td data-label=\"When\">", &[]).append(&when(Some(entry.at()))).add("</td>", &[]);
        html.add("<td data-label=\"Who\">{}</td>", &[&output::one_line(entry.who())]);
        html.add("<td data-label=\"What\">{}, {}</td>", &[&entry.act().as_str(), queue]);
        html.add("<td data-label=\"Messages\">{}</td>", &[&output::thousands(entry.messages())]);
        let (chosen, why) = (entry.chosen().unwrap_or("–"), entry.why().unwrap_or("–"));
        html.add("<td data-label=\"Which\"><span class=\"clip\">{}</span></td>", &[&output::one_line(chosen)]);
        html.add("<td data-label=\"Why\"><span class=\"clip\">{}</span></td></tr>", &[&output::one_line(why)]);
    }
    html.add("</tbody></table></div></section>", &[]);
    html
}
