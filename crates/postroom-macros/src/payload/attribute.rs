//! `#[signal("topic", version = 2, upcast_from = Older)]`, `#[command("topic", reply = Type)]`.

use syn::parse::{Parse, ParseStream};
use syn::{DeriveInput, Error, Ident, LitInt, LitStr, Result, Token, Type};

use super::Kind;
use crate::lane::{self, Lane};
use crate::names;

/// The content of the attribute beside the derive, after all checks.
pub(super) struct Attribute {
    pub(super) topic: String,
    pub(super) version: u32,
    pub(super) upcast_from: Option<Type>,
    pub(super) reply: Option<Type>,
    pub(super) lane: Option<Lane>,
}

impl Attribute {
    pub(super) fn of(input: &DeriveInput, kind: Kind) -> Result<Self> {
        let name = kind.attribute();
        let mut found = input.attrs.iter().filter(|attribute| attribute.path().is_ident(name));
        let Some(attribute) = found.next() else {
            let example = if kind == Kind::Command { ", reply = Reserved" } else { "" };
            return Err(Error::new(
                input.ident.span(),
                format!("its topic is missing: add `#[{name}(\"order.approved\"{example})]`"),
            ));
        };
        if let Some(second) = found.next() {
            return Err(Error::new_spanned(second, format!("`#[{name}(…)]` appears twice here")));
        }
        let said: Said = attribute.parse_args()?;
        said.checked(input, kind)
    }
}

/// The attribute as it is written.
struct Said {
    topic: LitStr,
    version: Option<LitInt>,
    upcast_from: Option<Type>,
    reply: Option<Type>,
    lane: Option<LitStr>,
}

impl Parse for Said {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if !input.peek(LitStr) {
            return Err(input.error("the topic comes first, in quotes, like \"order.approved\""));
        }
        let mut said = Self { topic: input.parse()?, version: None, upcast_from: None, reply: None, lane: None };
        while input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
            let key: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            match key.to_string().as_str() {
                "version" => said.version = Some(input.parse()?),
                "upcast_from" => said.upcast_from = Some(input.parse()?),
                "reply" => said.reply = Some(input.parse()?),
                "lane" => said.lane = Some(input.parse()?),
                other => {
                    let allowed = ["version", "upcast_from", "reply", "lane"];
                    return Err(Error::new(key.span(), names::unknown("key", other, &allowed)));
                }
            }
        }
        if input.is_empty() { Ok(said) } else { Err(input.error("expected `, key = value`")) }
    }
}

impl Said {
    fn checked(self, input: &DeriveInput, kind: Kind) -> Result<Attribute> {
        let topic = names::topic(&self.topic)?;
        let version =
            match &self.version {
                None => 1,
                Some(number) => number.base10_parse().ok().filter(|version| *version > 0).ok_or_else(|| {
                    Error::new(number.span(), format!("a version is a number from 1 to {}", u32::MAX))
                })?,
            };
        if let (1, Some(older)) = (version, &self.upcast_from) {
            return Err(Error::new_spanned(older, "version 1 has no older version: add `version = 2`, or more"));
        }
        let lane = self.lane.map(|text| Lane::of(text, &lane::members(input))).transpose()?;
        match (kind, &self.reply) {
            (Kind::Command, None) => Err(Error::new(
                input.ident.span(),
                "a command declares its answer: add `reply = Type`, or `reply = ()`, or derive Signal instead",
            )),
            (Kind::Event | Kind::Signal, Some(reply)) => Err(Error::new_spanned(
                reply,
                "only a command has an answer: derive Command instead, or remove `reply`",
            )),
            _ => Ok(Attribute { topic, version, upcast_from: self.upcast_from, reply: self.reply, lane }),
        }
    }
}
