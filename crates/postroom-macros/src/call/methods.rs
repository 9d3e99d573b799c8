//! Marked methods of one object: each is a handler, and the object registers them all.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Error, FnArg, Ident, ImplItem, ImplItemFn, ItemImpl, Meta, ReceiverKind, Result, Type, Visibility};

use super::attribute::Attribute;
use super::signature::{Call, Context};

const MARK: &str = "push_call";

pub(super) fn expand(arguments: TokenStream, block: &mut ItemImpl) -> Result<TokenStream> {
    if !arguments.is_empty() {
        return Err(Error::new_spanned(
            arguments,
            "on an `impl` block `#[push_call]` stands alone: the topics stand on its methods",
        ));
    }
    let mut calls = Vec::new();
    for item in &mut block.items {
        if let ImplItem::Fn(method) = item
            && let Some(attribute) = unmark(method)?
        {
            calls.push((taken_apart(attribute, method)?, method.vis.clone()));
        }
    }
    if calls.is_empty() {
        return Err(Error::new_spanned(
            &block.self_ty,
            "no method is marked: put `#[push_call(\"topic\")]` on those whose calls are messages",
        ));
    }
    let backend = backend(&calls)?;
    let handlers = calls.iter().map(|(call, visibility)| {
        let (message, handler) = (super::message(call, visibility), handler(call, block, backend.as_ref()));
        quote!(#message #handler)
    });
    let register = register(&calls, block, backend.as_ref());
    Ok(quote!(#(#handlers)* #register))
}

/// Takes the mark off a method.
fn unmark(method: &mut ImplItemFn) -> Result<Option<Attribute>> {
    let marked = method
        .attrs
        .iter()
        .position(|attribute| attribute.path().segments.last().is_some_and(|last| last.ident == MARK));
    let Some(at) = marked else { return Ok(None) };
    let arguments = match method.attrs.remove(at).meta {
        Meta::List(list) => list.tokens,
        _ => TokenStream::new(),
    };
    Attribute::parse(arguments).map(Some)
}

fn taken_apart(attribute: Attribute, method: &mut ImplItemFn) -> Result<Call> {
    match method.sig.inputs.first() {
        Some(FnArg::Receiver(receiver)) if matches!(receiver.kind, ReceiverKind::Reference(_, _, None)) => {}
        _ => return Err(Error::new_spanned(&method.sig.ident, "a marked method takes `&self` first")),
    }
    let call = Call::of(attribute, &mut method.sig, &method.attrs)?;
    match call.context {
        Context::Blocking => Err(Error::new_spanned(&method.sig.ident, "a marked method is async, with a `Ctx`")),
        _ => Ok(call),
    }
}

/// The backend that all of them agree on; none when none of them says.
fn backend(calls: &[(Call, Visibility)]) -> Result<Option<Type>> {
    let mut agreed: Option<&Type> = None;
    for (call, _) in calls {
        let Context::Async(backend) = &call.context else { continue };
        match agreed {
            Some(first) if first.to_token_stream().to_string() != backend.to_token_stream().to_string() => {
                return Err(Error::new_spanned(backend, "the marked methods of one object stand on one database"));
            }
            _ => agreed = Some(backend),
        }
    }
    Ok(agreed.cloned())
}

/// The block's own parameters, and the backend's where no method names one.
fn with_backend(block: &ItemImpl, backend: Option<&Type>) -> (TokenStream, TokenStream) {
    let params = &block.generics.params;
    match backend {
        Some(backend) => (quote!(<#params>), backend.to_token_stream()),
        None if params.is_empty() => (quote!(<B: ::postroom::Backend>), quote!(B)),
        None => (quote!(<#params, B: ::postroom::Backend>), quote!(B)),
    }
}

fn handler(call: &Call, block: &ItemImpl, backend: Option<&Type>) -> TokenStream {
    let Call { name, function, reply, .. } = call;
    let (fields, object, bounds) = (call.fields().collect::<Vec<_>>(), &block.self_ty, &block.generics.where_clause);
    let (generics, backend) = with_backend(block, backend);
    let context = matches!(call.context, Context::Async(_)).then(|| quote!(ctx,));
    let ctx: Ident = if context.is_some() { syn::parse_quote!(ctx) } else { syn::parse_quote!(_ctx) };
    quote! {
        impl #generics ::postroom::Handle<#backend, #name> for #object #bounds {
            type Reply = #reply;

            #[allow(clippy::needless_question_mark, reason = "it may fail with any error")]
            async fn handle(
                &self,
                #ctx: &mut ::postroom::Ctx<#backend>,
                call: #name,
            ) -> ::postroom::HandlerResult<#reply> {
                let #name { #(#fields),* } = call;
                ::core::result::Result::Ok(self.#function(#context #(#fields),*).await?)
            }
        }
    }
}

fn register(calls: &[(Call, Visibility)], block: &ItemImpl, backend: Option<&Type>) -> TokenStream {
    let (object, bounds) = (&block.self_ty, &block.generics.where_clause);
    let (generics, backend) = with_backend(block, backend);
    let names = calls.iter().map(|(call, _)| &call.name);
    quote! {
        impl #generics ::postroom::Calls<#backend> for #object #bounds {
            fn register(
                self: ::std::sync::Arc<Self>,
                handlers: ::postroom::Handlers<#backend>,
            ) -> ::postroom::Handlers<#backend> {
                handlers #(.with::<#names>(self.clone()))*
            }
        }
    }
}
