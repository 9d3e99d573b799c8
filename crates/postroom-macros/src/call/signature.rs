//! What a marked function takes and gives.

use quote::format_ident;
use syn::spanned::Spanned;
use syn::{
    Attribute as Attr, Error, FnArg, GenericArgument, Ident, Pat, PatType, PathArguments, PathSegment, Result,
    ReturnType, Signature, Type,
};

use super::attribute::Attribute;
use crate::{names, payload};

/// A marked function, taken apart.
pub(super) struct Call {
    pub(super) topic: String,
    /// The type of its calls.
    pub(super) name: Ident,
    pub(super) function: Ident,
    pub(super) context: Context,
    pub(super) arguments: Vec<Argument>,
    pub(super) reply: Type,
    pub(super) docs: Vec<Attr>,
}

/// What it is given besides its arguments.
pub(super) enum Context {
    Nothing,
    /// `&mut Ctx<Backend>`
    Async(Box<Type>),
    /// `&mut BlockingCtx<'_>`
    Blocking,
}

pub(super) struct Argument {
    pub(super) name: Ident,
    pub(super) ty: Type,
    pub(super) attributes: Vec<Attr>,
}

impl Call {
    /// Takes a signature apart, and the attributes off its arguments: they belong to the fields.
    pub(super) fn of(attribute: Attribute, signature: &mut Signature, attributes: &[Attr]) -> Result<Self> {
        let function = signature.ident.clone();
        let reply = reply(signature)?;
        let mut typed = signature.inputs.iter_mut().filter_map(|input| match input {
            FnArg::Typed(typed) => Some(typed),
            FnArg::Receiver(_) => None,
        });
        let mut typed = typed.by_ref().peekable();
        let context = match typed.peek().map(|first| Context::of(&first.ty)).transpose()? {
            Some(Some(context)) => {
                typed.next();
                context
            }
            _ => Context::Nothing,
        };
        let arguments = typed.map(Argument::of).collect::<Result<Vec<_>>>()?;
        let is_blocking = matches!(context, Context::Blocking);
        match (signature.asyncness, is_blocking) {
            (None, false) => {
                return Err(Error::new(
                    signature.fn_token.span(),
                    "a push call is an `async fn`, or takes a `&mut BlockingCtx<'_>` first",
                ));
            }
            (Some(asyncness), true) => {
                return Err(Error::new(asyncness.span(), "with a `BlockingCtx` it runs at once: leave `async` out"));
            }
            _ => {}
        }
        let camel = names::camel_case(&function.to_string());
        let name = attribute.name.unwrap_or_else(|| format_ident!("{camel}", span = function.span()));
        let docs = attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).cloned().collect();
        Ok(Self { topic: attribute.topic, name, function, context, arguments, reply, docs })
    }

    /// The names of the arguments.
    pub(super) fn fields(&self) -> impl Iterator<Item = &Ident> {
        self.arguments.iter().map(|argument| &argument.name)
    }
}

impl Context {
    /// The context that a first argument of this type is; none when it is an argument like the others.
    fn of(ty: &Type) -> Result<Option<Self>> {
        let Type::Reference(reference) = ty else { return Ok(None) };
        let Type::Path(path) = reference.elem.as_ref() else { return Ok(None) };
        let Some(last) = path.path.segments.last() else { return Ok(None) };
        if last.ident == "BlockingCtx" {
            return Ok(Some(Self::Blocking));
        }
        if last.ident != "Ctx" {
            return Ok(None);
        }
        let backend = first_type(last).ok_or_else(|| {
            Error::new_spanned(ty, "which database? Write `&mut Ctx<Sqlite>`, `&mut Ctx<Postgres>`, …")
        })?;
        Ok(Some(Self::Async(Box::new(backend.clone()))))
    }
}

impl Argument {
    fn of(typed: &mut PatType) -> Result<Self> {
        let Pat::Ident(name) = typed.pat.as_ref() else {
            return Err(Error::new_spanned(&typed.pat, "an argument travels under its name: write `name: Type` here"));
        };
        payload::check_type(&typed.ty)?;
        let name = name.ident.clone();
        Ok(Self { name, ty: (*typed.ty).clone(), attributes: std::mem::take(&mut typed.attrs) })
    }
}

/// The first of the types in angle brackets.
fn first_type(segment: &PathSegment) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// `R` of `-> Result<R, HandlerError>`.
fn reply(signature: &Signature) -> Result<Type> {
    let found = match &signature.output {
        ReturnType::Type(_, ty) => match ty.as_ref() {
            Type::Path(path) => path.path.segments.last().filter(|last| last.ident.to_string().ends_with("Result")),
            _ => None,
        },
        ReturnType::Default => None,
    };
    found.and_then(first_type).cloned().ok_or_else(|| {
        Error::new(
            signature.ident.span(),
            "nobody knows whether it succeeded: let it return `Result<(), HandlerError>`, or an answer instead of `()`",
        )
    })
}
