//! A marked function: it is kept, and a handler calls it.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, FnArg, ItemFn, Result};

use super::attribute::Attribute;
use super::signature::{Call, Context};

pub(super) fn expand(attribute: Attribute, item: &mut ItemFn) -> Result<TokenStream> {
    if let Some(FnArg::Receiver(receiver)) = item.sig.inputs.first() {
        return Err(Error::new_spanned(receiver, "for a method, put `#[push_call]` on its `impl` block as well"));
    }
    let call = Call::of(attribute, &mut item.sig, &item.attrs)?;
    let message = super::message(&call, &item.vis);
    let callable = callable(&call, item);
    Ok(quote!(#message #callable))
}

fn callable(call: &Call, item: &ItemFn) -> TokenStream {
    let Call { name, function, reply, .. } = call;
    let fields: Vec<_> = call.fields().collect();
    let (generics, own) = (&item.sig.generics, item.sig.generics.split_for_impl());
    let (impl_generics, _, where_clause) = &own;
    let sqlite = quote!(::postroom::Sqlite);
    match &call.context {
        Context::Blocking => quote! {
            impl ::postroom::Callable<#sqlite> for #name {
                #[allow(clippy::needless_question_mark, reason = "it may fail with any error")]
                fn register(handlers: ::postroom::Handlers<#sqlite>) -> ::postroom::Handlers<#sqlite> {
                    handlers.on_blocking(|ctx: &mut ::postroom::BlockingCtx<'_>, call: #name| {
                        let #name { #(#fields),* } = call;
                        ::postroom::HandlerResult::<#reply>::Ok(#function(ctx, #(#fields),*)?)
                    })
                }
            }
        },
        Context::Nothing => quote! {
            impl<B: ::postroom::Backend> ::postroom::Callable<B> for #name {
                fn register(handlers: ::postroom::Handlers<B>) -> ::postroom::Handlers<B> {
                    #[allow(clippy::needless_question_mark, reason = "it may fail with any error")]
                    async fn handle<B: ::postroom::Backend>(
                        _: &mut ::postroom::Ctx<B>,
                        call: #name,
                    ) -> ::postroom::HandlerResult<#reply> {
                        let #name { #(#fields),* } = call;
                        ::core::result::Result::Ok(#function(#(#fields),*).await?)
                    }
                    handlers.on(handle::<B>)
                }
            }
        },
        Context::Async(backend) => quote! {
            impl #impl_generics ::postroom::Callable<#backend> for #name #where_clause {
                fn register(handlers: ::postroom::Handlers<#backend>) -> ::postroom::Handlers<#backend> {
                    #[allow(clippy::needless_question_mark, reason = "it may fail with any error")]
                    async fn handle #generics (
                        ctx: &mut ::postroom::Ctx<#backend>,
                        call: #name,
                    ) -> ::postroom::HandlerResult<#reply> #where_clause {
                        let #name { #(#fields),* } = call;
                        ::core::result::Result::Ok(#function(ctx, #(#fields),*).await?)
                    }
                    handlers.on(handle)
                }
            }
        },
    }
}
