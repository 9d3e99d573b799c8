//! `#[push_call("topic", name = SendMail, lane = "mail-{to}")]`.

use proc_macro2::{Span, TokenStream};
use syn::parse::{ParseStream, Parser};
use syn::{Error, Ident, LitStr, Result, Token};

use crate::names;

/// The content of the attribute.
pub(super) struct Attribute {
    pub(super) topic: String,
    pub(super) name: Option<Ident>,
    /// Its lane, before the names of the arguments are known.
    pub(super) lane: Option<LitStr>,
}

impl Attribute {
    pub(super) fn parse(arguments: TokenStream) -> Result<Self> {
        if arguments.is_empty() {
            return Err(Error::new(Span::call_site(), "its topic is missing: write `#[push_call(\"mail.send\")]`"));
        }
        Self::read.parse2(arguments)
    }

    fn read(input: ParseStream<'_>) -> Result<Self> {
        if !input.peek(LitStr) {
            return Err(input.error("the topic comes first, in quotes, like \"mail.send\""));
        }
        let mut attribute = Self { topic: names::topic(&input.parse()?)?, name: None, lane: None };
        while input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
            let key: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            match key.to_string().as_str() {
                "name" => attribute.name = Some(input.parse()?),
                "lane" => attribute.lane = Some(input.parse()?),
                other => return Err(Error::new(key.span(), names::unknown("key", other, &["name", "lane"]))),
            }
        }
        if input.is_empty() {
            Ok(attribute)
        } else {
            Err(input.error("expected `, name = Type` or `, lane = \"…\"`"))
        }
    }
}
