//! `[sources.NAME]` and `[hooks.NAME]`: who may send messages to this node, and which topics.

use super::reader::Section;
use super::sections::{WINDOW, check_name, needs_key};
use super::{Hook, Scheme, Source};

pub(super) fn source((name, mut section): (String, Section<'_>)) -> Source {
    check_name(&section, &name, &section.at, "the name of a source");
    let keys = section.keys("keys");
    let window = section.span("window", WINDOW);
    let allow_v1 = section.flag("allow_v1").unwrap_or(false);
    let topics = topics(&mut section);
    needs_key(&section, keys.is_empty());
    section.finish();
    Source { name, keys, window, allow_v1, topics }
}

/// The topics that a sender may use; `None` means any.
fn topics(section: &mut Section<'_>) -> Option<Vec<String>> {
    let named = section.list("topics")?;
    if named.is_empty()
        && let Some(at) = section.place_of("topics")
    {
        section.mistake(
            &at,
            format!("`topics` in {} is empty; name at least one topic, or remove the key to allow all", section.title),
        );
    }
    for (topic, at) in &named {
        let is_whole = !topic.trim().is_empty() && !topic.strip_suffix('*').unwrap_or(topic).contains('*');
        let is_name = topic.chars().count() <= 255 && !topic.ends_with(' ') && !topic.contains(char::is_control);
        if !is_whole || !is_name {
            let forms = "like \"order.placed\", or \"order.*\" for every topic that starts with \"order.\"";
            section.mistake(at, format!("`topics` in {} must be names of topics, {forms}", section.title));
        }
    }
    Some(named.into_iter().map(|(topic, _)| topic).collect())
}

pub(super) fn hook((name, mut section): (String, Section<'_>)) -> Option<Hook> {
    check_name(&section, &name, &section.at, "the name of a hook");
    let scheme = section.text("scheme");
    let known = match scheme.as_ref().map(|(scheme, _)| scheme.as_str()) {
        Some("standard-webhooks") => Some(Scheme::StandardWebhooks),
        Some("stripe") => Some(Scheme::Stripe),
        Some("github") => Some(Scheme::GitHub),
        _ => None,
    };
    if known.is_none() {
        let at = section.place_of("scheme").unwrap_or_else(|| section.at.clone());
        let forms = "\"standard-webhooks\", \"stripe\" or \"github\"";
        section.mistake(&at, format!("`scheme` in {} must be {forms}", section.title));
    }
    let secrets = section.secrets("secret");
    if section.place_of("secret").is_none() {
        let example = "secret = { env = \"VARIABLE\" }";
        section.mistake(&section.at, format!("{} needs a secret, like {example}", section.title));
    }
    let (at, topics) = (section.at.clone(), topics(&mut section));
    let cloud_events = section.flag("cloud_events").unwrap_or(false);
    if let Some(at) =
        section.place_of("cloud_events").filter(|_| cloud_events && known != Some(Scheme::StandardWebhooks))
    {
        let why = "needs the scheme \"standard-webhooks\", because other schemes do not sign the id of an event";
        section.mistake(&at, format!("`cloud_events` in {} {why}", section.title));
    }
    section.finish();
    known.map(|scheme| Hook { name, at, scheme, secrets, topics, cloud_events })
}
