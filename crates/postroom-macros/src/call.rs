//! `#[push_call]`: a function call as a message.

mod attribute;
mod function;
mod methods;
mod signature;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Item, Result, Visibility};

use crate::lane::Lane;
use attribute::Attribute;
use signature::Call;

pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let mut item: Item = syn::parse2(item)?;
    let written = match &mut item {
        Item::Fn(function) => Attribute::parse(arguments).and_then(|attribute| function::expand(attribute, function)),
        Item::Impl(block) => methods::expand(arguments, block),
        other => Err(Error::new_spanned(
            other,
            "`push_call` belongs on an async function, or on an `impl` block with marked methods",
        )),
    };
    // The item stays even if it is invalid: that gives one error, instead of another for each of its uses.
    let written = written.unwrap_or_else(|error| error.to_compile_error());
    Ok(quote!(#item #written))
}

/// Writes the type of the calls, whose fields are the arguments.
fn message(call: &Call, visibility: &Visibility) -> TokenStream {
    let Call { name, function, topic, reply, lane, arguments, docs, cfgs, .. } = call;
    let lane = lane.as_ref().map(Lane::written);
    let told = format!("A call of `{function}`.");
    let fields = arguments.iter().map(|argument| {
        let (attributes, name, ty) = (&argument.attributes, &argument.name, &argument.ty);
        let told = (!attributes.iter().any(|attribute| attribute.path().is_ident("doc"))).then(|| {
            let told = format!("The argument `{name}`.");
            quote!(#[doc = #told])
        });
        quote!(#told #(#attributes)* #visibility #name: #ty)
    });
    quote! {
        #(#cfgs)*
        #[doc = #told]
        ///
        #(#docs)*
        #[derive(::postroom::macro_support::serde::Serialize, ::postroom::macro_support::serde::Deserialize)]
        #[serde(crate = "::postroom::macro_support::serde")]
        #visibility struct #name { #(#fields),* }

        #(#cfgs)*
        impl ::postroom::Payload for #name {
            const TOPIC: &'static str = #topic;
            const KIND: ::postroom::message::Kind = ::postroom::message::Kind::PushCall;
            type Reply = #reply;
            #lane
        }

        #(#cfgs)*
        impl ::postroom::message::Replies for #name {}

        #(#cfgs)*
        impl ::postroom::message::PushCall for #name {}
    }
}
