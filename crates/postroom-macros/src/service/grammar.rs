//! The clauses of `service!`.

use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, Expr, Ident, LitStr, Result, Token, Type, Visibility, token};

use super::block::{Destination, Source, Tuning};
use super::checks;
use super::value::Text;
use crate::names;

/// A service as it is declared.
pub(crate) struct Declared {
    pub(super) attributes: Vec<Attribute>,
    pub(super) visibility: Visibility,
    pub(super) ident: Ident,
    pub(super) name: LitStr,
    pub(super) backend: Type,
    pub(super) listens: Vec<Text>,
    pub(super) sources: Vec<Source>,
    pub(super) handled: Vec<Handled>,
    pub(super) destinations: Vec<Destination>,
}

/// A message that the service receives, and its handler.
pub(super) struct Handled {
    pub(super) payload: Type,
    pub(super) by: By,
    pub(super) tuning: Tuning,
}

pub(super) enum By {
    Function(Expr),
    Blocking(Expr),
    /// The function of the call itself.
    Itself,
}

const CLAUSES: [&str; 5] = ["listen", "source", "handle", "call", "destination"];

impl Parse for Declared {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut declared = Self::head(input)?;
        while !input.is_empty() {
            let clause: Ident = input.parse()?;
            match clause.to_string().as_str() {
                "listen" => {
                    checks::can_listen(&clause, cfg!(feature = "http"))?;
                    declared.listens.push(input.parse()?);
                    input.parse::<Token![;]>()?;
                }
                "source" => declared.sources.push(input.parse()?),
                "handle" => declared.handled.push(input.parse()?),
                "call" => {
                    let (payload, tuning) = (input.parse()?, input.parse()?);
                    declared.handled.push(Handled { payload, by: By::Itself, tuning });
                }
                "destination" => declared.destinations.push(input.parse()?),
                other => return Err(Error::new(clause.span(), names::unknown("clause", other, &CLAUSES))),
            }
        }
        checks::unique(&declared)?;
        Ok(declared)
    }
}

impl Declared {
    /// Parses `pub struct Orders for "orders" on Sqlite;`.
    fn head(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        if let Some(cfg) = attributes.iter().find(|attribute| attribute.path().is_ident("cfg")) {
            let what = "a `cfg` here applies only to the struct: put the service into a module, and the `cfg` on that";
            return Err(Error::new_spanned(cfg, what));
        }
        let visibility = input.parse()?;
        if !input.peek(Token![struct]) {
            return Err(input.error("a service begins with `struct Orders for \"orders\" on Sqlite;`"));
        }
        input.parse::<Token![struct]>()?;
        let ident = input.parse()?;
        input.parse::<Token![for]>()?;
        let name: LitStr = input.parse()?;
        names::service(&name)?;
        let on: Ident = input.parse()?;
        if on != "on" {
            return Err(Error::new(on.span(), "on which database? Write `on Sqlite`, `on Postgres`, …"));
        }
        let backend = input.parse()?;
        input.parse::<Token![;]>()?;
        Ok(Self {
            attributes,
            visibility,
            ident,
            name,
            backend,
            listens: Vec::new(),
            sources: Vec::new(),
            handled: Vec::new(),
            destinations: Vec::new(),
        })
    }
}

impl Parse for Handled {
    /// Parses `Reserve => reserve;`, `Reserve => blocking reserve;` or `Reserve => reserve { concurrency: 2 }`.
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let payload: Type = input.parse()?;
        if !input.peek(Token![=>]) {
            return Err(Error::new_spanned(payload, "it has no handler: write `handle Payload => function;`"));
        }
        input.parse::<Token![=>]>()?;
        let is_alone = input.peek2(Token![;]) || input.peek2(token::Brace);
        let is_blocking = input.fork().parse::<Ident>().is_ok_and(|word| word == "blocking") && !is_alone;
        if is_blocking {
            input.parse::<Ident>()?;
        }
        let function = input.call(Expr::parse_without_eager_brace)?;
        let by = if is_blocking { By::Blocking(function) } else { By::Function(function) };
        Ok(Self { payload, by, tuning: input.parse()? })
    }
}
