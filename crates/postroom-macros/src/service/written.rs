//! Writes the code that a declaration expands to.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Result};

use super::block::Destination;
use super::checks;
use super::grammar::{By, Declared, Handled};
use crate::names::camel_case;

pub(crate) fn expand(declared: &Declared) -> Result<TokenStream> {
    let (service, clients) = (service(declared), clients(declared));
    let (declaration, topics) = (declaration(declared), checks::topics(declared));
    Ok(quote!(#service #declaration #clients #topics))
}

/// Writes the type, and how it is started and stopped.
fn service(declared: &Declared) -> TokenStream {
    let Declared { attributes, visibility, ident, backend, .. } = declared;
    quote! {
        #(#attributes)*
        #[derive(Debug)]
        #visibility struct #ident {
            running: ::postroom::services::RunningService<#backend>,
        }

        #[allow(dead_code, reason = "not every program needs all of it")]
        impl #ident {
            /// Starts the service on this store: listening, handling and sending.
            #visibility async fn start(
                store: <#backend as ::postroom::handler::Backend>::Store,
            ) -> ::postroom::Result<Self> {
                Self::on(store).start().await
            }

            /// Returns the service on this store before it is started. Set its options there, and the values its
            /// handlers need.
            #visibility fn on(
                store: <#backend as ::postroom::handler::Backend>::Store,
            ) -> ::postroom::services::ServiceBuilder<Self> {
                ::postroom::services::ServiceBuilder::new(store)
            }

            /// Runs until `shutdown` is ready, then stops.
            #visibility async fn until(
                self,
                shutdown: impl ::core::future::Future<Output = ()>,
            ) -> ::postroom::Result<()> {
                self.running.until(shutdown).await
            }

            /// Stops the service: it accepts nothing new, finishes what is in progress, and releases the rest.
            #visibility async fn stop(self) -> ::postroom::Result<()> {
                self.running.stop().await
            }
        }

        impl ::core::ops::Deref for #ident {
            type Target = ::postroom::services::RunningService<#backend>;

            fn deref(&self) -> &Self::Target {
                &self.running
            }
        }
    }
}

/// Writes the handlers, keys and addresses.
fn declaration(declared: &Declared) -> TokenStream {
    let Declared { ident, name, backend, .. } = declared;
    let handled = declared.handled.iter().map(handled);
    let sources = declared.sources.iter().map(|source| {
        let (name, keys) = (&source.name, source.secret.written());
        quote!(::postroom::services::Source::new(#name, #keys))
    });
    let destinations = declared.destinations.iter().map(|destination| {
        let (name, url) = (&destination.name, destination.url.written());
        let keys = destination.secret.as_ref().map(|secret| {
            let keys = secret.written();
            quote!(.keys(#keys))
        });
        quote!(::postroom::services::Service::new(#name, #url) #keys)
    });
    let addresses = declared.listens.iter().map(|address| address.written());
    quote! {
        impl ::postroom::services::Declared for #ident {
            type Backend = #backend;
            const NAME: &'static str = #name;

            fn handlers() -> ::postroom::Handlers<#backend> {
                let handlers = ::postroom::Handlers::<#backend>::new();
                #(#handled)*
                handlers
            }

            fn sources() -> ::postroom::Result<::std::vec::Vec<::postroom::services::Source>> {
                ::core::result::Result::Ok(::std::vec![#(#sources),*])
            }

            fn destinations() -> ::postroom::Result<::std::vec::Vec<::postroom::services::Service>> {
                ::core::result::Result::Ok(::std::vec![#(#destinations),*])
            }

            fn addresses() -> ::postroom::Result<::std::vec::Vec<::std::string::String>> {
                ::core::result::Result::Ok(::std::vec![#(#addresses),*])
            }

            fn started(running: ::postroom::services::RunningService<#backend>) -> Self {
                Self { running }
            }
        }
    }
}

fn handled(handled: &Handled) -> TokenStream {
    let (payload, tuning) = (&handled.payload, &handled.tuning);
    let retry = tuning.retry.as_ref().map(|policy| quote_spanned!(policy.span() => .retry(#policy)));
    let concurrency = tuning.concurrency.as_ref().map(|most| quote_spanned!(most.span() => .concurrency(#most)));
    let registered = match &handled.by {
        By::Function(function) => quote_spanned!(function.span() => handlers.on::<#payload, _>(#function)),
        By::Blocking(function) => quote_spanned!(function.span() => handlers.on_blocking::<#payload, _>(#function)),
        By::Itself => quote_spanned!(payload.span() => handlers.call::<#payload>()),
    };
    quote!(let handlers = #registered #retry #concurrency;)
}

/// Writes, for each destination, a type that says what may be sent there, and a client.
fn clients(declared: &Declared) -> TokenStream {
    let (service, visibility) = (&declared.ident, &declared.visibility);
    let clients = declared.destinations.iter().map(|destination| {
        let Destination { ident, name, sends, .. } = destination;
        let target: Ident = format_ident!("{service}To{}", camel_case(&ident.to_string()), span = ident.span());
        let outgoing = format_ident!("to_{}", ident);
        let (about, client) = (format!("The destination \"{name}\"."), format!("Sends to \"{name}\"."));
        let message = format!("A message for \"{name}\" that is not sent yet.");
        let accepts = sends.iter().map(
            |payload| quote_spanned!(payload.span() => impl ::postroom::services::Accepts<#payload> for #target {}),
        );
        quote! {
            #[doc = #about]
            #[derive(Debug)]
            #visibility enum #target {}

            impl ::postroom::services::Target for #target {
                const NAME: &'static str = #name;
            }

            #(#accepts)*
            // With only one message, the compiler would expect that one for every argument, and its error would
            // mislead.
            impl ::postroom::services::Accepts<::postroom::macro_support::Nothing> for #target {}

            #[allow(dead_code, reason = "not every program needs both")]
            impl #service {
                #[doc = #client]
                #visibility fn #ident(&self) -> ::postroom::services::Client<#target> {
                    ::postroom::services::Client::new(self.running.outbox().clone())
                }

                #[doc = #message]
                #[inline]
                #visibility fn #outgoing<P: ::postroom::Payload>(payload: &P) -> ::postroom::message::Outgoing<P>
                where
                    #target: ::postroom::services::Accepts<P>,
                {
                    ::postroom::services::Client::<#target>::outgoing(payload)
                }
            }
        }
    });
    quote!(#(#clients)*)
}
