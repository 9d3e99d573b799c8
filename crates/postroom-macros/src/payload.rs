//! `#[derive(Event)]`, `#[derive(Signal)]`, `#[derive(Command)]`.

mod attribute;
mod fields;

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, Ident, Result};

use crate::lane::Lane;
use attribute::Attribute;
pub(crate) use fields::check_type;

/// The trait that is derived.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Event,
    Signal,
    Command,
}

impl Kind {
    /// Returns the name of the trait, which is also the variant of `postroom::message::Kind`.
    fn name(self) -> &'static str {
        match self {
            Self::Event => "Event",
            Self::Signal => "Signal",
            Self::Command => "Command",
        }
    }

    /// Returns the name of the attribute beside the derive.
    fn attribute(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Signal => "signal",
            Self::Command => "command",
        }
    }
}

pub(crate) fn derive(input: &DeriveInput, kind: Kind) -> Result<TokenStream> {
    let attribute = Attribute::of(input, kind)?;
    if let Some(generic) = input.generics.params.first() {
        return Err(Error::new(
            generic.span(),
            "a message has one topic and owns what it carries: no type parameters and no lifetimes here",
        ));
    }
    fields::check(input)?;
    let message = Message { name: &input.ident, kind: format_ident!("{}", kind.name()), attribute };
    Ok(message.written())
}

struct Message<'a> {
    name: &'a Ident,
    kind: Ident,
    attribute: Attribute,
}

impl Message<'_> {
    fn written(&self) -> TokenStream {
        let Self { name, kind, attribute: Attribute { topic, version, reply, lane, .. } } = self;
        let (upcast, checks) = (self.upcast(), self.upcast_checks());
        let lane = lane.as_ref().map(Lane::written);
        let stays_here = kind == Kind::Event.name();
        let replies = reply.as_ref().map(|_| quote!(impl ::postroom::message::Replies for #name {}));
        let reply = reply.as_ref().map_or_else(|| quote!(()), |reply| quote!(#reply));
        quote_spanned! { name.span() =>
            impl ::postroom::Payload for #name {
                const TOPIC: &'static str = #topic;
                const KIND: ::postroom::message::Kind = ::postroom::message::Kind::#kind;
                const VERSION: u32 = #version;
                const STAYS_HERE: bool = #stays_here;
                type Reply = #reply;
                #upcast
                #lane
            }
            #replies
            impl ::postroom::#kind for #name {}
            #checks
        }
    }

    fn upcast(&self) -> Option<TokenStream> {
        let older = self.attribute.upcast_from.as_ref()?;
        Some(quote_spanned! { older.span() =>
            fn upcast(version: u32, json: &str) -> ::postroom::Result<Self> {
                <#older as ::postroom::Payload>::read(version, json).map(::core::convert::Into::into)
            }
        })
    }

    /// Writes checks that need the older type's topic and version, which only the compiler knows.
    fn upcast_checks(&self) -> Option<TokenStream> {
        let older = self.attribute.upcast_from.as_ref()?;
        let (topic, version) = (&self.attribute.topic, self.attribute.version);
        let not_older =
            "`upcast_from` names a type that is not of an older version: raise `version` here, or name an older one";
        let other_topic = "`upcast_from` names a type with another topic: both must have the same";
        Some(quote_spanned! { older.span() =>
            const _: () = {
                if <#older as ::postroom::Payload>::VERSION >= #version {
                    ::core::panic!(#not_older);
                }
                if !::postroom::macro_support::same(<#older as ::postroom::Payload>::TOPIC, #topic) {
                    ::core::panic!(#other_topic);
                }
            };
        })
    }
}
