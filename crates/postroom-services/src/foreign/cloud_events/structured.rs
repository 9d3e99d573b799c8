//! Structured mode: the event is one JSON object.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::foreign::cloud_events::attributes::{self, Attributes};
use crate::foreign::cloud_events::{CloudEvent, media_type};
use crate::foreign::{json, text};
use postroom_core::support::error::{Error, Result};

const SENT_AS: HeaderValue = HeaderValue::from_static("application/cloudevents+json; charset=utf-8");
/// Data without a type has this content type.
const IMPLIED: &str = "application/json";

pub(super) fn read(body: &[u8]) -> Result<CloudEvent> {
    let mut members = json::members(text(body)?)?;
    let (data, coded) = (members.remove("data"), members.remove("data_base64").filter(|coded| !is_null(coded)));
    let mut given = Attributes::new();
    for (name, value) in members.into_iter().filter(|(_, value)| !is_null(value)) {
        let value = canonical(value).ok_or_else(|| {
            let name = json::quoted(&name);
            Error::invalid(format!("the CloudEvent's {name} must be a string, a whole number, true or false"))
        })?;
        given.insert(name, value);
    }
    let content_type = given.remove("datacontenttype").filter(|given| !given.is_empty());
    let (content_type, payload) = match (data, coded) {
        (Some(_), Some(_)) => return Err(Error::invalid("the CloudEvent has both \"data\" and \"data_base64\"")),
        (Some(data), None) => {
            let content_type = content_type.unwrap_or_else(|| IMPLIED.to_owned());
            let payload = plain(data, &content_type)?;
            (Some(content_type), payload)
        }
        (None, Some(coded)) => (content_type, decoded(coded)?),
        (None, None) => (content_type, String::new()),
    };
    attributes::event(given, content_type, payload)
}

fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

/// Returns an attribute as text, or `None` if the value cannot be an attribute.
fn canonical(value: &RawValue) -> Option<String> {
    match value.get() {
        flag @ ("true" | "false") => Some(flag.to_owned()),
        number if number.parse::<i32>().is_ok() => Some(number.to_owned()),
        _ => json::string(value),
    }
}

/// JSON keeps its exact bytes; other content is the text in a JSON string.
fn plain(data: &RawValue, content_type: &str) -> Result<String> {
    if is_json(content_type) {
        return Ok(data.get().to_owned());
    }
    if is_null(data) {
        return Ok(String::new());
    }
    json::string(data)
        .ok_or_else(|| Error::invalid("the CloudEvent's \"data\" must be a string, because its type is not JSON"))
}

fn decoded(coded: &RawValue) -> Result<String> {
    let bytes = json::string(coded).and_then(|coded| STANDARD.decode(coded).ok());
    let bytes = bytes.ok_or_else(|| Error::invalid("the CloudEvent's \"data_base64\" is not base64"))?;
    String::from_utf8(bytes)
        .map_err(|_| Error::invalid("the CloudEvent's \"data_base64\" is not UTF-8; only text is accepted"))
}

fn is_json(content_type: &str) -> bool {
    media_type(content_type).split_once('/').is_some_and(|(_, subtype)| subtype == "json" || subtype.ends_with("+json"))
}

#[derive(Serialize)]
#[serde(untagged)]
enum Value<'a> {
    Text(&'a str),
    Coded(String),
    Json(&'a RawValue),
}

pub(super) fn write(event: &CloudEvent) -> Result<(HeaderMap, Bytes)> {
    let given = attributes::of(event)?;
    let mut members: BTreeMap<&str, Value<'_>> =
        given.iter().map(|(name, value)| (name.as_str(), Value::Text(value))).collect();
    members.extend(event.content_type().map(|given| ("datacontenttype", Value::Text(given))));
    members.extend(data(event));
    let body = serde_json::to_vec(&members)
        .map_err(|source| Error::invalid("the CloudEvent cannot be written as JSON").caused_by(source))?;
    Ok((HeaderMap::from_iter([(CONTENT_TYPE, SENT_AS)]), Bytes::from(body)))
}

/// Writes the payload so that it is read back byte for byte.
fn data(event: &CloudEvent) -> Option<(&'static str, Value<'_>)> {
    let payload = event.payload.as_str();
    if payload.is_empty() {
        return None;
    }
    let coded = || ("data_base64", Value::Coded(STANDARD.encode(payload)));
    // Data without a type would be read as JSON.
    let Some(content_type) = event.content_type() else { return Some(coded()) };
    if !is_json(content_type) {
        return Some(("data", Value::Text(payload)));
    }
    // Inside the body, the payload would lose surrounding whitespace; and text that is not JSON cannot be there.
    let json = serde_json::from_str::<&RawValue>(payload).ok().filter(|json| json.get().len() == payload.len());
    Some(json.map_or_else(coded, |json| ("data", Value::Json(json))))
}
