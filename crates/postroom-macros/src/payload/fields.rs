//! Checks the types of a payload's fields: they must form a finite tree.

use syn::punctuated::Punctuated;
use syn::{Data, DeriveInput, Error, Fields, GenericArgument, Ident, PathArguments, Result, Token, Type, Variant};

/// Shared pointers, two of which can point at each other.
const SHARED: [&str; 2] = ["Rc", "Arc"];
/// Types that contain their value directly. About other types only the compiler knows.
const WITHIN: [&str; 6] = ["Option", "Result", "Cell", "RefCell", "Mutex", "RwLock"];
/// Types that cannot point back.
const PLAIN: [&str; 17] = [
    "str", "String", "bool", "char", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128",
    "f32", "f64",
];

pub(super) fn check(input: &DeriveInput) -> Result<()> {
    let mut problems = None;
    let mut note = |result: Result<()>| match (result, &mut problems) {
        (Err(error), None) => problems = Some(error),
        (Err(error), Some(all)) => all.combine(error),
        (Ok(()), _) => {}
    };
    match &input.data {
        Data::Struct(data) => types(&data.fields).for_each(|field| note(allowed(field, Some(&input.ident), true))),
        Data::Enum(data) => variants(&data.variants).for_each(|field| note(allowed(field, Some(&input.ident), true))),
        Data::Union(data) => {
            note(Err(Error::new_spanned(data.union_token, "a union cannot travel: use a struct or an enum")));
        }
    }
    problems.map_or(Ok(()), Err)
}

/// Checks that a value of this type can travel.
pub(crate) fn check_type(ty: &Type) -> Result<()> {
    allowed(ty, None, true)
}

fn types(fields: &Fields) -> impl Iterator<Item = &Type> {
    fields.iter().map(|field| &field.ty)
}

fn variants(variants: &Punctuated<Variant, Token![,]>) -> impl Iterator<Item = &Type> {
    variants.iter().flat_map(|variant| types(&variant.fields))
}

/// Checks a type and all types it is written with. With `direct`, the value is in the payload itself.
fn allowed(ty: &Type, own: Option<&Ident>, direct: bool) -> Result<()> {
    let path = match ty {
        Type::Path(path) => &path.path,
        Type::Array(array) => return allowed(&array.elem, own, direct),
        Type::Slice(slice) => return allowed(&slice.elem, own, direct),
        Type::Tuple(tuple) => return tuple.elems.iter().try_for_each(|part| allowed(part, own, direct)),
        Type::Paren(inner) => return allowed(&inner.elem, own, direct),
        Type::Group(inner) => return allowed(&inner.elem, own, direct),
        Type::Reference(reference) => {
            return Err(Error::new_spanned(reference, "a message owns what it carries: use `String` or `Vec` here"));
        }
        Type::Ptr(_) | Type::FnPtr(_) | Type::TraitObject(_) | Type::ImplTrait(_) => {
            return Err(Error::new_spanned(ty, "this cannot be written as JSON and read again"));
        }
        _ => return Ok(()),
    };
    let Some(last) = path.segments.last() else { return Ok(()) };
    if own.is_none() && path.segments.first().is_some_and(|first| first.ident == "Self") {
        return Err(Error::new_spanned(ty, "a call has its own type: write the name instead of `Self`"));
    }
    if let Some(own) = own
        && direct
        && path.segments.len() == 1
        && (last.ident == *own || last.ident == "Self")
    {
        let how = format!("`{own}` contains itself: put it in a `Box` or a `Vec`");
        return Err(Error::new_spanned(ty, how));
    }
    let named = |names: &[&str]| names.iter().any(|name| last.ident == name);
    let inner: Vec<&Type> = arguments(&last.arguments);
    if last.ident == "Weak" || named(&SHARED) && !inner.iter().all(|inner| is_plain(inner)) {
        return Err(Error::new_spanned(
            ty,
            "shared pointers can form a cycle, which cannot be written as JSON: own the value, or use a `Box`",
        ));
    }
    inner.into_iter().try_for_each(|inner| allowed(inner, own, direct && named(&WITHIN)))
}

fn arguments(arguments: &PathArguments) -> Vec<&Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else { return Vec::new() };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.collect()
}

fn is_plain(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => path.path.get_ident().is_some_and(|name| PLAIN.iter().any(|plain| name == plain)),
        Type::Slice(slice) => is_plain(&slice.elem),
        _ => false,
    }
}
