//! The block of a source, a destination or a handler: `{ key: value, … }`.

use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, Ident, LitStr, Result, Token, Type, braced, bracketed, token};

use super::value::{Secret, Text};
use crate::names;

/// A service whose messages are accepted.
pub(super) struct Source {
    pub(super) name: LitStr,
    pub(super) secret: Secret,
}

impl Parse for Source {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name: LitStr = input.parse()?;
        names::service(&name)?;
        let mut secret = None;
        fields(input, &["secret"], |_, value| {
            secret = Some(value.parse()?);
            Ok(())
        })?;
        let secret = secret.ok_or_else(|| no_secret(&name.value(), name.span()))?;
        Ok(Self { name, secret })
    }
}

/// A service that messages are sent to.
pub(super) struct Destination {
    /// The name of the client.
    pub(super) ident: Ident,
    /// The name of the service.
    pub(super) name: String,
    pub(super) url: Text,
    /// The secret; a service in the same process has none.
    pub(super) secret: Option<Secret>,
    pub(super) sends: Vec<Type>,
}

impl Parse for Destination {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let ident: Ident = input.parse()?;
        let (mut name, mut url, mut secret, mut sends) = (None::<LitStr>, None::<Text>, None, None::<Vec<Type>>);
        fields(input, &["name", "url", "secret", "sends"], |key, value| {
            match key {
                "name" => name = Some(value.parse()?),
                "url" => url = Some(value.parse()?),
                "secret" => secret = Some(value.parse()?),
                _ => {
                    let inside;
                    bracketed!(inside in value);
                    sends = Some(inside.parse_terminated(Type::parse, Token![,])?.into_iter().collect());
                }
            }
            Ok(())
        })?;
        let missing = |what: String| Error::new(ident.span(), what);
        let url = url.ok_or_else(|| missing(format!("where is `{ident}`? Add `url: \"https://…\"`")))?;
        let sends = sends.filter(|sends| !sends.is_empty());
        let sends = sends.ok_or_else(|| missing(format!("nothing is sent to `{ident}`: add `sends: [Payload]`")))?;
        if secret.is_none() && !url.is_in_process() {
            return Err(no_secret(&ident.to_string(), ident.span()));
        }
        let name = name.unwrap_or_else(|| LitStr::new(&ident.to_string(), ident.span()));
        Ok(Self { name: names::service(&name)?, ident, url, secret, sends })
    }
}

/// The settings of one handler.
#[derive(Default)]
pub(super) struct Tuning {
    pub(super) retry: Option<Expr>,
    pub(super) concurrency: Option<Expr>,
}

impl Parse for Tuning {
    /// Parses `{ retry: …, concurrency: … }`, or `;` without settings.
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut tuning = Self::default();
        if !input.peek(token::Brace) {
            input.parse::<Token![;]>()?;
            return Ok(tuning);
        }
        fields(input, &["retry", "concurrency"], |key, value| {
            match key {
                "retry" => tuning.retry = Some(value.parse()?),
                _ => tuning.concurrency = Some(value.parse()?),
            }
            Ok(())
        })?;
        Ok(tuning)
    }
}

fn no_secret(name: &str, span: proc_macro2::Span) -> Error {
    Error::new(span, format!("no secret is shared with `{name}`: add `secret: env(\"VARIABLE\")`"))
}

/// Reads the block, key by key; each key may appear at most once.
fn fields(
    input: ParseStream<'_>,
    allowed: &[&'static str],
    mut read: impl FnMut(&str, ParseStream<'_>) -> Result<()>,
) -> Result<()> {
    let inside;
    braced!(inside in input);
    let mut seen: Vec<String> = Vec::new();
    while !inside.is_empty() {
        let key: Ident = inside.parse()?;
        let word = key.to_string();
        if !allowed.contains(&word.as_str()) {
            return Err(Error::new(key.span(), names::unknown("key", &word, allowed)));
        }
        if seen.contains(&word) {
            return Err(Error::new(key.span(), format!("`{word}` appears twice here")));
        }
        inside.parse::<Token![:]>()?;
        read(&word, &inside)?;
        seen.push(word);
        if !inside.is_empty() {
            inside.parse::<Token![,]>()?;
        }
    }
    Ok(())
}
