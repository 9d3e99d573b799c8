//! The marked methods of one object: each becomes a handler, and the object registers them all.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Error, FnArg, ImplItem, ImplItemFn, ItemImpl, Meta, ReceiverKind, Result, Type, Visibility};

use super::attribute::Attribute;
use super::signature::{Call, Context, State};

const MARK: &str = "push_call";

pub(super) fn expand(arguments: TokenStream, block: &mut ItemImpl) -> Result<TokenStream> {
    if !arguments.is_empty() {
        return Err(Error::new_spanned(
            arguments,
            "on an `impl` block, `#[push_call]` takes no arguments: put the topics on its methods",
        ));
    }
    let mut calls = Vec::new();
    let mut problems: Option<Error> = None;
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        let Some(marked) = unmark(method) else { continue };
        match marked.and_then(|attribute| taken_apart(attribute, method)) {
            Ok(call) => calls.push((call, method.vis.clone())),
            Err(error) => match &mut problems {
                Some(all) => all.combine(error),
                none => *none = Some(error),
            },
        }
    }
    if let Some(problems) = problems {
        return Err(problems);
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

/// Removes the mark from a method.
fn unmark(method: &mut ImplItemFn) -> Option<Result<Attribute>> {
    let marked = method
        .attrs
        .iter()
        .position(|attribute| attribute.path().segments.last().is_some_and(|last| last.ident == MARK));
    let arguments = match method.attrs.remove(marked?).meta {
        Meta::List(list) => list.tokens,
        _ => TokenStream::new(),
    };
    Some(Attribute::parse(arguments))
}

fn taken_apart(attribute: Attribute, method: &mut ImplItemFn) -> Result<Call> {
    match method.sig.inputs.first() {
        Some(FnArg::Receiver(receiver)) if matches!(receiver.kind, ReceiverKind::Reference(_, _, None)) => {}
        _ => return Err(Error::new_spanned(&method.sig.ident, "a marked method takes `&self` first")),
    }
    let call = Call::of(attribute, &mut method.sig, &method.attrs)?;
    if !method.sig.generics.params.is_empty() {
        let what = "a marked method has no generic parameters: name the database, `Ctx<Sqlite>`, or take no context";
        return Err(Error::new_spanned(&method.sig.generics, what));
    }
    match call.context {
        Context::Blocking => Err(Error::new_spanned(&method.sig.ident, "a marked method is async, with a `Ctx`")),
        _ => Ok(call),
    }
}

/// Returns the backend that all methods agree on, or `None` if no method names one.
fn backend(calls: &[(Call, Visibility)]) -> Result<Option<Type>> {
    let mut agreed: Option<&Type> = None;
    for (call, _) in calls {
        let Context::Async(backend) = &call.context else { continue };
        match agreed {
            Some(first) if first.to_token_stream().to_string() != backend.to_token_stream().to_string() => {
                return Err(Error::new_spanned(backend, "the marked methods of one object must use one database"));
            }
            _ => agreed = Some(backend),
        }
    }
    Ok(agreed.cloned())
}

/// Returns the block's own parameters, with one for the backend if no method names it.
fn with_backend(block: &ItemImpl, backend: Option<&Type>) -> (TokenStream, TokenStream) {
    let params = &block.generics.params;
    match backend {
        Some(backend) => (quote!(<#params>), backend.to_token_stream()),
        None if params.is_empty() => (quote!(<__PostroomB: ::postroom::handler::Backend>), quote!(__PostroomB)),
        None => (quote!(<#params, __PostroomB: ::postroom::handler::Backend>), quote!(__PostroomB)),
    }
}

fn handler(call: &Call, block: &ItemImpl, backend: Option<&Type>) -> TokenStream {
    let Call { name, function, reply, passed, cfgs, .. } = call;
    let (object, bounds) = (&block.self_ty, &block.generics.where_clause);
    let state = |State { name, value, .. }: &State| quote!(let #name = __postroom_ctx.state::<#value>()?;);
    let states = call.states.iter().map(state);
    let needed = (!call.states.is_empty()).then(|| {
        let values = call.states.iter().map(|state| &state.value);
        quote! {
            fn needed(&self) -> ::std::vec::Vec<::postroom::macro_support::Needed> {
                ::std::vec![#(::postroom::macro_support::Needed::of::<#values>()),*]
            }
        }
    });
    let (generics, backend) = with_backend(block, backend);
    let context = matches!(call.context, Context::Async(_)).then(|| quote!(__postroom_ctx,));
    quote! {
        #(#cfgs)*
        impl #generics ::postroom::handler::Handle<#backend, #name> for #object #bounds {
            #[allow(unused_variables, clippy::needless_question_mark, reason = "written for any method")]
            async fn handle(
                &self,
                __postroom_ctx: &mut ::postroom::Ctx<#backend>,
                __postroom_call: #name,
            ) -> ::postroom::HandlerResult<#reply> {
                #(#states)*
                ::core::result::Result::Ok(self.#function(#context #(#passed),*).await?)
            }

            #needed
        }
    }
}

fn register(calls: &[(Call, Visibility)], block: &ItemImpl, backend: Option<&Type>) -> TokenStream {
    let (object, bounds) = (&block.self_ty, &block.generics.where_clause);
    let (generics, backend) = with_backend(block, backend);
    let each = calls
        .iter()
        .map(|(Call { name, cfgs, .. }, _)| quote!(#(#cfgs)* let handlers = handlers.with::<#name>(self.clone());));
    quote! {
        impl #generics ::postroom::handler::Calls<#backend> for #object #bounds {
            fn register(
                self: ::std::sync::Arc<Self>,
                handlers: ::postroom::Handlers<#backend>,
            ) -> ::postroom::Handlers<#backend> {
                #(#each)*
                handlers
            }
        }
    }
}
