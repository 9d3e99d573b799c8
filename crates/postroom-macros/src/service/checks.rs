//! Checks a declaration as a whole.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, Ident, Result};

use super::grammar::Declared;

/// The methods that a service already has; a client is a method as well.
const TAKEN: [&str; 8] = ["start", "on", "until", "stop", "store", "outbox", "receiver", "tcp_addresses"];

/// Checks that the library can listen, which depends on a feature.
pub(super) fn can_listen(clause: &Ident, has_http: bool) -> Result<()> {
    if has_http {
        return Ok(());
    }
    Err(Error::new(clause.span(), "to listen, `postroom` needs its feature `http`: add it in Cargo.toml"))
}

/// Checks that nothing is declared twice.
pub(super) fn unique(declared: &Declared) -> Result<()> {
    let mut problems: Option<Error> = None;
    let mut note = |error: Error| match &mut problems {
        Some(all) => all.combine(error),
        none => *none = Some(error),
    };
    let handled: Vec<_> = declared.handled.iter().map(|handled| text(&handled.payload)).collect();
    for (at, handled_again) in declared.handled.iter().enumerate() {
        let payload = &handled[at];
        if handled[..at].contains(payload) {
            let what = format!("`{payload}` is handled twice: keep one of them");
            note(Error::new_spanned(&handled_again.payload, what));
        }
    }
    for (at, source) in declared.sources.iter().enumerate() {
        let name = source.name.value();
        if declared.sources[..at].iter().any(|other| other.name.value() == name) {
            note(Error::new(source.name.span(), format!("the source \"{name}\" is declared twice")));
        }
    }
    for (at, destination) in declared.destinations.iter().enumerate() {
        if TAKEN.iter().any(|taken| destination.ident == taken) {
            let (ident, name) = (&destination.ident, &destination.name);
            let what = format!("`{ident}` is a method of the service: choose another name, and add `name: \"{name}\"`");
            note(Error::new(ident.span(), what));
        }
        let others = &declared.destinations[..at];
        if others.iter().any(|other| other.ident == destination.ident || other.name == destination.name) {
            let what = format!("the destination `{}` is declared twice", destination.ident);
            note(Error::new(destination.ident.span(), what));
        }
        let sends: Vec<_> = destination.sends.iter().map(text).collect();
        for (at, payload) in destination.sends.iter().enumerate() {
            if sends[..at].contains(&sends[at]) {
                note(Error::new_spanned(payload, format!("`{}` appears twice here", sends[at])));
            }
        }
    }
    if let (Some(_), true) = (declared.listens.first(), declared.sources.is_empty()) {
        let what = "it listens, but accepts no source: add `source \"name\" { secret: env(\"VARIABLE\") }`";
        note(Error::new(declared.ident.span(), what));
    }
    problems.map_or(Ok(()), Err)
}

/// Checks that no two messages have the same topic. Only the compiler knows their topics, so this writes code.
pub(super) fn topics(declared: &Declared) -> TokenStream {
    let mut checks = TokenStream::new();
    for (at, second) in declared.handled.iter().enumerate() {
        for first in &declared.handled[..at] {
            let (a, b) = (&first.payload, &second.payload);
            let why = format!(
                "`{}` and `{}` have the same topic in the service \"{}\": give one of them another",
                text(a),
                text(b),
                declared.name.value()
            );
            checks.extend(quote_spanned! { b.span() =>
                if ::postroom::macro_support::same(
                    <#a as ::postroom::Payload>::TOPIC,
                    <#b as ::postroom::Payload>::TOPIC,
                ) {
                    ::core::panic!(#why);
                }
            });
        }
    }
    quote!(const _: () = { #checks };)
}

fn text(tokens: &impl ToTokens) -> String {
    tokens.to_token_stream().to_string().replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_listen_is_a_feature() {
        let clause = Ident::new("listen", proc_macro2::Span::call_site());
        assert!(can_listen(&clause, true).is_ok());
        let refused = can_listen(&clause, false).unwrap_err().to_string();
        assert_eq!(refused, "to listen, `postroom` needs its feature `http`: add it in Cargo.toml");
    }
}
