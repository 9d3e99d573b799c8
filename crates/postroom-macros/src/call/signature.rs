//! The signature of a marked function: what it takes and returns.

use std::collections::VecDeque;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{
    Attribute as Attr, Error, FnArg, GenericArgument, Ident, Member, Pat, PatType, PathArguments, PathSegment, Result,
    ReturnType, Signature, Type,
};

use super::attribute::Attribute;
use crate::lane::Lane;
use crate::{names, payload};

/// The parts of a marked function.
pub(super) struct Call {
    pub(super) topic: String,
    pub(super) lane: Option<Lane>,
    /// The name of the type of its calls.
    pub(super) name: Ident,
    pub(super) function: Ident,
    pub(super) context: Context,
    pub(super) arguments: Vec<Argument>,
    pub(super) states: Vec<State>,
    /// What it is called with, after the context: its arguments and states, in its own order.
    pub(super) passed: Vec<TokenStream>,
    pub(super) reply: Type,
    pub(super) docs: Vec<Attr>,
    /// The conditions under which it is compiled.
    pub(super) cfgs: Vec<Attr>,
}

/// The context that it gets in addition to its arguments.
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

/// An argument that does not travel: the worker has its value.
pub(super) struct State {
    pub(super) name: Ident,
    /// `State<Mailer>`
    pub(super) ty: Type,
    /// `Mailer`
    pub(super) value: Type,
}

/// As many as a handler can take.
const STATES_MAX: usize = 4;

impl Call {
    /// Splits a signature into its parts. It removes those attributes from the arguments that belong to the fields.
    pub(super) fn of(attribute: Attribute, signature: &mut Signature, attributes: &[Attr]) -> Result<Self> {
        let function = signature.ident.clone();
        let mut typed: VecDeque<(&PatType, Vec<Attr>)> = VecDeque::new();
        for input in &mut signature.inputs {
            if let FnArg::Typed(argument) = input {
                let fields = argument.attrs.extract_if(.., is_of_field).collect();
                typed.push_back((argument, fields));
            }
        }
        let context = match typed.front().map(|(first, _)| Context::of(&first.ty)).transpose()?.flatten() {
            Some(context) => {
                typed.pop_front();
                context
            }
            None => Context::Nothing,
        };
        let (mut arguments, mut states, mut passed) = (Vec::new(), Vec::new(), Vec::new());
        for (typed, fields) in typed {
            if let Some(state) = State::of(typed, states.len())? {
                let name = &state.name;
                passed.push(quote!(#name));
                states.push(state);
            } else {
                let argument = Argument::of(typed, fields)?;
                let name = &argument.name;
                passed.push(quote!(__postroom_call.#name));
                arguments.push(argument);
            }
        }
        let reply = reply(signature)?;
        let is_blocking = matches!(context, Context::Blocking);
        match (signature.asyncness, is_blocking) {
            (None, false) => {
                return Err(Error::new(
                    signature.fn_token.span(),
                    "a push call is an `async fn`, or takes a `&mut BlockingCtx<'_>` first",
                ));
            }
            (Some(asyncness), true) => {
                return Err(Error::new(asyncness.span(), "with a `BlockingCtx` it is not async: remove `async`"));
            }
            _ => {}
        }
        let camel = names::camel_case(&function.to_string());
        let name = match attribute.name {
            Some(name) => name,
            None if camel.starts_with(|c: char| c.is_alphabetic()) => format_ident!("{camel}", span = function.span()),
            None => {
                let what = "no type can be named after this function: write `name = Type` in `push_call`";
                return Err(Error::new(function.span(), what));
            }
        };
        let named =
            |name: &str| attributes.iter().filter(|attribute| attribute.path().is_ident(name)).cloned().collect();
        let (docs, cfgs) = (named("doc"), named("cfg"));
        let members: Vec<_> = arguments.iter().map(|argument| Member::Named(argument.name.clone())).collect();
        let lane = attribute.lane.map(|text| Lane::of(text, &members)).transpose()?;
        let topic = attribute.topic;
        Ok(Self { topic, lane, name, function, context, arguments, states, passed, reply, docs, cfgs })
    }
}

impl State {
    /// Returns the state if an argument of this type is one, or `None` if it travels.
    fn of(typed: &PatType, before: usize) -> Result<Option<Self>> {
        let Type::Path(path) = typed.ty.as_ref() else { return Ok(None) };
        let last = path.path.segments.last().filter(|last| last.ident == "State");
        let Some(value) = last.and_then(first_type) else { return Ok(None) };
        if before == STATES_MAX {
            return Err(Error::new_spanned(typed, format!("a handler takes up to {STATES_MAX} states")));
        }
        let name = format_ident!("__postroom_state_{before}");
        Ok(Some(Self { name, ty: (*typed.ty).clone(), value: value.clone() }))
    }
}

impl Context {
    /// Returns the context if a first argument of this type is one, or `None` if it is an ordinary argument.
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

/// Returns whether an attribute belongs to the field that an argument becomes. The others stay with the argument.
fn is_of_field(attribute: &mut Attr) -> bool {
    attribute.path().is_ident("serde") || attribute.path().is_ident("doc")
}

impl Argument {
    fn of(typed: &PatType, attributes: Vec<Attr>) -> Result<Self> {
        if let Some(cfg) = typed.attrs.iter().find(|attribute| attribute.path().is_ident("cfg")) {
            let what = "an argument with a `cfg` cannot travel: make it an `Option`";
            return Err(Error::new_spanned(cfg, what));
        }
        let Pat::Ident(name) = typed.pat.as_ref() else {
            return Err(Error::new_spanned(&typed.pat, "an argument travels by its name: write `name: Type` here"));
        };
        payload::check_type(&typed.ty)?;
        let name = name.ident.clone();
        Ok(Self { name, ty: (*typed.ty).clone(), attributes })
    }
}

/// Returns the first type in angle brackets.
fn first_type(segment: &PathSegment) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// Returns `R` of `-> Result<R, HandlerError>`.
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
            "it must report whether it succeeded: return `Result<(), HandlerError>`, or an answer instead of `()`",
        )
    })
}
