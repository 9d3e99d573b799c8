//! Addresses, which may come from the environment, and secrets, which must never be in the source.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, Ident, LitStr, Result, Token, bracketed, parenthesized, token};

use crate::names;

/// The default id of a key, on both sides.
const KEY_ID: &str = "1";

/// An address: text, `env("VARIABLE")`, `env("VARIABLE", "otherwise")`, or an expression.
pub(super) enum Text {
    Literal(LitStr),
    Env { variable: LitStr, otherwise: Option<LitStr> },
    Expression(Expr),
}

impl Parse for Text {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(LitStr) {
            return Ok(Self::Literal(input.parse()?));
        }
        if !input.fork().parse::<Ident>().is_ok_and(|word| word == "env") || !input.peek2(token::Paren) {
            return Ok(Self::Expression(input.parse()?));
        }
        input.parse::<Ident>()?;
        let inside;
        parenthesized!(inside in input);
        let variable = inside.parse()?;
        let otherwise = match inside.parse::<Option<Token![,]>>()? {
            Some(_) if !inside.is_empty() => Some(inside.parse()?),
            _ => None,
        };
        Ok(Self::Env { variable, otherwise })
    }
}

impl Text {
    /// Writes an expression that yields a `String`, inside a function that returns a `Result`.
    pub(super) fn written(&self) -> TokenStream {
        match self {
            Self::Literal(text) => quote!(::std::string::String::from(#text)),
            Self::Env { variable, otherwise: None } => {
                quote!(::postroom::macro_support::env(#variable, ::core::option::Option::None)?)
            }
            Self::Env { variable, otherwise: Some(text) } => {
                quote!(::postroom::macro_support::env(#variable, ::core::option::Option::Some(#text))?)
            }
            Self::Expression(expression) => quote!(::std::string::String::from(#expression)),
        }
    }

    /// Returns whether the service is in the same process, where messages are not signed.
    pub(super) fn is_in_process(&self) -> bool {
        matches!(self, Self::Literal(text) if text.value() == "in-process")
    }
}

/// The source of the keys: one source, or several in brackets, newest first.
pub(super) struct Secret(Vec<Key>);

struct Key {
    from: From,
    id: Option<LitStr>,
}

enum From {
    Env(LitStr),
    File(LitStr),
    Keys(Expr),
}

impl Parse for Secret {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if !input.peek(token::Bracket) {
            return Ok(Self(vec![input.parse()?]));
        }
        let inside;
        let bracket = bracketed!(inside in input);
        let keys: Vec<Key> = inside.parse_terminated(Key::parse, Token![,])?.into_iter().collect();
        let refused = |what: &str| Err(Error::new(bracket.span.join(), what));
        if keys.is_empty() {
            return refused("the secret is missing: add `env(\"VARIABLE\") as \"key-id\"`");
        }
        let ids: Vec<_> = keys.iter().filter_map(Key::id).collect();
        if ids.iter().enumerate().any(|(at, id)| ids[..at].contains(id)) {
            return refused(
                "two keys have the same id: name each, `env(\"NEW\") as \"2026-11\", env(\"OLD\") as \"2026-10\"`",
            );
        }
        Ok(Self(keys))
    }
}

impl Parse for Key {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(LitStr) {
            let text: LitStr = input.parse()?;
            return Err(Error::new(
                text.span(),
                "a secret must not be in the source: write `env(\"VARIABLE\")` or `file(\"/run/secrets/name\")`",
            ));
        }
        let word: Ident = input.parse()?;
        if !input.peek(token::Paren) || !["env", "file", "keys"].iter().any(|known| word == known) {
            return Err(Error::new(
                word.span(),
                "a secret is `env(\"VARIABLE\")`, `file(\"/run/secrets/name\")` or `keys(expression)`",
            ));
        }
        let inside;
        parenthesized!(inside in input);
        let from = match word.to_string().as_str() {
            "env" => From::Env(inside.parse()?),
            "file" => From::File(inside.parse()?),
            _ => From::Keys(inside.parse()?),
        };
        if !inside.is_empty() {
            return Err(inside.error("nothing else is allowed here: a secret has no default"));
        }
        let id = match input.parse::<Option<Token![as]>>()? {
            Some(_) => Some(input.parse::<LitStr>()?),
            None => None,
        };
        match (&from, &id) {
            (From::Keys(_), Some(id)) => return Err(Error::new(id.span(), "`keys(…)` already have ids")),
            (_, Some(id)) => names::key_id(id)?,
            (_, None) => {}
        }
        Ok(Self { from, id })
    }
}

impl Key {
    /// Returns the id that signatures name. For keys that the program creates itself, only the program knows it.
    fn id(&self) -> Option<String> {
        match self.from {
            From::Keys(_) => None,
            _ => Some(self.id.as_ref().map_or_else(|| KEY_ID.to_owned(), LitStr::value)),
        }
    }
}

impl Secret {
    /// Writes an expression that yields `Keys`, inside a function that returns a `Result`.
    pub(super) fn written(&self) -> TokenStream {
        if let [Key { from: From::Keys(keys), .. }] = self.0.as_slice() {
            return quote!(::postroom::services::Keys::from(#keys));
        }
        let keys = self.0.iter().map(|key| {
            let id = key.id();
            match &key.from {
                From::Env(variable) => quote!(::postroom::services::Key::from_env(#id, #variable)?),
                From::File(path) => quote!(::postroom::services::Key::from_file(#id, #path)?),
                From::Keys(key) => quote!(#key),
            }
        });
        quote!(::postroom::services::Keys::new([#(#keys),*])?)
    }
}
