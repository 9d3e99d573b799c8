//! The attributes of an event, by name and as text. Both modes share them.

use std::collections::BTreeMap;

use crate::foreign::cloud_events::{CONTENT_TYPE_HEADER, CloudEvent, PREFIX};
use crate::foreign::json::quoted;
use postroom_core::message::Headers;
use postroom_core::support::clock::Timestamp;
use postroom_core::support::error::{Error, Result};

const VERSION: &str = "1.0";
/// These attributes are fields of a message, or are expressed in another way.
const OWN: [&str; 6] = ["specversion", "id", "source", "type", "time", "datacontenttype"];
const NEVER_EMPTY: [&str; 5] = ["id", "source", "type", "subject", "dataschema"];

/// All attributes but `datacontenttype`.
pub(super) type Attributes = BTreeMap<String, String>;

/// Builds the event with these attributes.
pub(super) fn event(mut given: Attributes, content_type: Option<String>, payload: String) -> Result<CloudEvent> {
    check_all(&given, content_type.as_deref())?;
    let mut take = |name: &str| given.remove(name).ok_or_else(|| missing(name));
    if take("specversion")? != VERSION {
        return Err(Error::invalid(format!("CloudEvents are accepted only in version {VERSION}")));
    }
    let (id, source, topic) = (take("id")?, take("source")?, take("type")?);
    let time = given.remove("time").map(|time| time.parse::<Timestamp>()).transpose();
    let time = time.map_err(|error| Error::invalid(format!("the CloudEvent's \"time\" is {error}")))?;
    let mut headers: Headers = given.into_iter().map(|(name, value)| (format!("{PREFIX}{name}"), value)).collect();
    headers.extend(content_type.map(|content_type| (CONTENT_TYPE_HEADER.to_owned(), content_type)));
    Ok(CloudEvent { id, source, topic, time, headers, payload })
}

/// Returns the attributes of this event.
pub(super) fn of(event: &CloudEvent) -> Result<Attributes> {
    let mut all = Attributes::from([
        ("specversion".into(), VERSION.into()),
        ("id".into(), event.id.clone()),
        ("source".into(), event.source.clone()),
        ("type".into(), event.topic.clone()),
    ]);
    all.extend(event.time.map(|time| ("time".into(), time_text(time))));
    for (header, value) in &event.headers {
        let Some(name) = header.strip_prefix(PREFIX) else { continue };
        if OWN.contains(&name) {
            let why = "the message sets this attribute itself";
            return Err(Error::invalid(format!("the header {header} cannot be sent with a CloudEvent: {why}")));
        }
        all.insert(name.to_owned(), value.clone());
    }
    check_all(&all, event.content_type())?;
    Ok(all)
}

fn missing(name: &str) -> Error {
    Error::invalid(format!("the CloudEvent has no \"{name}\""))
}

fn check_all(given: &Attributes, content_type: Option<&str>) -> Result<()> {
    given.iter().try_for_each(|(name, value)| check(name, value))?;
    content_type.map_or(Ok(()), |content_type| check("datacontenttype", content_type))
}

fn check(name: &str, value: &str) -> Result<()> {
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if !is_name || name == "data" {
        let rule = "the name of an attribute contains only a to z and 0 to 9";
        return Err(Error::invalid(format!("{} cannot be an attribute: {rule}", quoted(name))));
    }
    if value.is_empty() && NEVER_EMPTY.contains(&name) {
        return Err(Error::invalid(format!("the CloudEvent's \"{name}\" must not be empty")));
    }
    if value.chars().any(|character| character.is_control() || is_noncharacter(character)) {
        return Err(Error::invalid(format!("the CloudEvent's \"{name}\" has a character that is not allowed there")));
    }
    Ok(())
}

/// Returns whether Unicode promises never to assign a character to this code point.
fn is_noncharacter(character: char) -> bool {
    let code = u32::from(character);
    (0xfdd0..=0xfdef).contains(&code) || code & 0xfffe == 0xfffe
}

/// Formats a time by RFC 3339, without trailing zeros.
fn time_text(time: Timestamp) -> String {
    let text = time.to_string();
    format!("{}Z", text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.'))
}
