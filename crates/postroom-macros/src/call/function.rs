//! A marked function: it stays as it is, and a handler calls it.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, FnArg, ItemFn, Result};

use super::attribute::Attribute;
use super::signature::{Call, Context, State};

pub(super) fn expand(attribute: Attribute, item: &mut ItemFn) -> Result<TokenStream> {
    if let Some(FnArg::Receiver(receiver)) = item.sig.inputs.first() {
        return Err(Error::new_spanned(receiver, "for a method, put `#[push_call]` on its `impl` block as well"));
    }
    let call = Call::of(attribute, &mut item.sig, &item.attrs)?;
    if let (Context::Nothing | Context::Blocking, false) = (&call.context, item.sig.generics.params.is_empty()) {
        let what = "only the database may be a type parameter here: `Ctx<B>`, with `B: Backend`";
        return Err(Error::new_spanned(&item.sig.generics, what));
    }
    let message = super::message(&call, &item.vis);
    let callable = callable(&call, item);
    Ok(quote!(#message #callable))
}

/// Our own names begin with `__postroom`, so the user's function and its arguments may have any other name.
fn callable(call: &Call, item: &ItemFn) -> TokenStream {
    let Call { name, function, reply, passed, cfgs, .. } = call;
    let states = states(call);
    let (generics, (impl_generics, _, where_clause)) = (&item.sig.generics, item.sig.generics.split_for_impl());
    let (backend, implemented_for, handle_generics, context) = match &call.context {
        Context::Blocking => return blocking(call),
        Context::Nothing => {
            let any = quote!(<__PostroomB: ::postroom::handler::Backend>);
            (quote!(__PostroomB), any.clone(), any, None)
        }
        Context::Async(backend) => {
            (quote!(#backend), quote!(#impl_generics), quote!(#generics), Some(quote!(__postroom_ctx,)))
        }
    };
    quote! {
        #(#cfgs)*
        impl #implemented_for ::postroom::handler::Callable<#backend> for #name #where_clause {
            fn register(handlers: ::postroom::Handlers<#backend>) -> ::postroom::Handlers<#backend> {
                #[allow(unused_variables, clippy::needless_question_mark, reason = "written for any function")]
                async fn __postroom_handle #handle_generics (
                    __postroom_ctx: &mut ::postroom::Ctx<#backend>,
                    __postroom_call: #name,
                    #states
                ) -> ::postroom::HandlerResult<#reply> #where_clause {
                    ::core::result::Result::Ok(#function(#context #(#passed),*).await?)
                }
                handlers.on(__postroom_handle)
            }
        }
    }
}

/// The states as parameters.
fn states(call: &Call) -> TokenStream {
    let states = call.states.iter().map(|State { name, ty, .. }| quote!(#name: #ty,));
    quote!(#(#states)*)
}

fn blocking(call: &Call) -> TokenStream {
    let Call { name, function, reply, passed, cfgs, .. } = call;
    let states = states(call);
    quote! {
        #(#cfgs)*
        impl ::postroom::handler::Callable<::postroom::sqlite::Sqlite> for #name {
            #[allow(unused_variables, clippy::needless_question_mark, reason = "written for any function")]
            fn register(
                handlers: ::postroom::Handlers<::postroom::sqlite::Sqlite>,
            ) -> ::postroom::Handlers<::postroom::sqlite::Sqlite> {
                use ::postroom::sqlite::BlockingCtx as __PostroomCtx;
                handlers.on_blocking(|__postroom_ctx: &mut __PostroomCtx<'_>, __postroom_call: #name, #states| {
                    ::postroom::HandlerResult::<#reply>::Ok(#function(__postroom_ctx, #(#passed),*)?)
                })
            }
        }
    }
}
