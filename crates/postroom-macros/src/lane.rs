//! `lane = "order-{order}"`: the lane of a message, written with its fields.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Error, LitStr, Member, Result};

use crate::names;

/// The text of a lane, in which each name in braces stands for a field.
pub(crate) struct Lane {
    /// The text with `{}` for each field.
    format: String,
    fields: Vec<Member>,
    text: LitStr,
}

impl Lane {
    pub(crate) fn of(text: LitStr, members: &[Member]) -> Result<Self> {
        let written = text.value();
        let refused = |why: &str| Error::new(text.span(), why);
        if written.is_empty() {
            return Err(refused("a lane has a name, like \"order-{order}\"; without `lane`, a message has none"));
        }
        let (mut format, mut fields, mut rest) = (String::new(), Vec::new(), written.as_str());
        while let Some(at) = rest.find(['{', '}']) {
            format.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(behind) = rest.strip_prefix("{{").or_else(|| rest.strip_prefix("}}")) {
                format.push_str(&rest[..2]);
                rest = behind;
                continue;
            }
            let Some((name, behind)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
                let why = "a brace without the other: a field is written as `{order}`, and a brace as `{{` or `}}`";
                return Err(refused(why));
            };
            fields.push(field(name.trim(), members).map_err(|why| refused(&why))?);
            format.push_str("{}");
            rest = behind;
        }
        format.push_str(rest);
        Ok(Self { format, fields, text })
    }

    /// Writes the method that names the lane.
    pub(crate) fn written(&self) -> TokenStream {
        let Self { format, fields, text } = self;
        // A type that cannot be written is an error at the text.
        let fields = fields.iter().map(|field| {
            let mut field = field.clone();
            match &mut field {
                Member::Named(name) => name.set_span(text.span()),
                Member::Unnamed(index) => index.span = text.span(),
            }
            quote_spanned!(text.span() => self.#field)
        });
        quote! {
            fn lane(&self) -> ::core::option::Option<::std::string::String> {
                ::core::option::Option::Some(::std::format!(#format #(, #fields)*))
            }
        }
    }
}

/// Returns the fields that a lane can name: those of a struct.
pub(crate) fn members(input: &DeriveInput) -> Vec<Member> {
    match &input.data {
        Data::Struct(data) => data.fields.members().collect(),
        Data::Enum(_) | Data::Union(_) => Vec::new(),
    }
}

fn field(name: &str, members: &[Member]) -> std::result::Result<Member, String> {
    let names: Vec<String> = members.iter().map(told).collect();
    match names.iter().position(|known| known == name) {
        Some(at) => Ok(members[at].clone()),
        None if names.is_empty() => {
            Err(format!("there is no field `{name}` to name: set the lane of each message with `outgoing().lane(…)`"))
        }
        None => Err(names::unknown("field", name, &names.iter().map(String::as_str).collect::<Vec<_>>())),
    }
}

fn told(member: &Member) -> String {
    match member {
        Member::Named(name) => name.unraw().to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;
    use syn::parse_quote;

    use super::*;

    fn of(text: &str) -> Result<Lane> {
        Lane::of(LitStr::new(text, Span::call_site()), &[parse_quote!(order), parse_quote!(r#type)])
    }

    #[test]
    fn names_in_braces_stand_for_fields_and_doubled_braces_for_themselves() {
        let lane = of("{type}/{{x}}-{ order }").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(lane.format, "{}/{{x}}-{}");
        assert_eq!(lane.fields.iter().map(told).collect::<Vec<_>>(), ["type", "order"]);
        assert!(of("all").is_ok_and(|lane| lane.fields.is_empty()));
    }

    #[test]
    fn what_names_no_field_is_refused() {
        for (text, why) in [
            ("", "a lane has a name"),
            ("order-{odrer}", "did you mean `order`?"),
            ("{order:04}", "unknown field `order:04`"),
            ("order-{order", "a brace without the other"),
            ("order}", "a brace without the other"),
        ] {
            assert!(of(text).is_err_and(|error| error.to_string().contains(why)), "{text}");
        }
    }
}
