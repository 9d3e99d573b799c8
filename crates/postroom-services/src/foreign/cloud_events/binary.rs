//! Binary mode: the payload is the body, and each attribute is a header.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::foreign::cloud_events::attributes::{self, Attributes};
use crate::foreign::cloud_events::{CloudEvent, MEDIA_TYPE, PREFIX, content_type, header_value, media_type};
use crate::foreign::{optional_header, text};
use postroom_core::support::error::{Error, Result};

pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Result<CloudEvent> {
    let mut given = Attributes::new();
    for name in headers.keys() {
        let Some(attribute) = name.as_str().strip_prefix(PREFIX) else { continue };
        if attribute == "datacontenttype" {
            return Err(Error::invalid("a CloudEvent in binary mode uses content-type, not ce-datacontenttype"));
        }
        let value = header_value::decode(optional_header(headers, name.as_str())?.unwrap_or_default());
        let value =
            value.ok_or_else(|| Error::invalid(format!("the header {name} is not properly percent-encoded")))?;
        given.insert(attribute.to_owned(), value);
    }
    let content_type = Some(content_type(headers)?.to_owned()).filter(|given| !given.is_empty());
    attributes::event(given, content_type, text(body)?.to_owned())
}

pub(super) fn write(event: &CloudEvent) -> Result<(HeaderMap, Bytes)> {
    let mut headers = HeaderMap::new();
    let unfit = |name: &str| Error::invalid(format!("the attribute \"{name}\" cannot be a header"));
    for (name, value) in attributes::of(event)? {
        let header = HeaderName::try_from(format!("{PREFIX}{name}")).map_err(|_| unfit(&name))?;
        let value = HeaderValue::try_from(header_value::encode(&value)).map_err(|_| unfit(&name))?;
        headers.insert(header, value);
    }
    if let Some(content_type) = event.content_type() {
        // With this content type, the receiver would read the payload as the event itself.
        if media_type(content_type).starts_with(MEDIA_TYPE) {
            return Err(Error::invalid("a CloudEvent whose payload is a CloudEvent cannot be sent in binary mode"));
        }
        // Only plain text is allowed: receivers disagree on other bytes, and we do not read them at all.
        let value = HeaderValue::from_str(content_type).ok().filter(|value| value.to_str().is_ok());
        headers.insert(CONTENT_TYPE, value.ok_or_else(|| unfit("datacontenttype"))?);
    }
    Ok((headers, Bytes::from(event.payload.clone())))
}
