//! `#[derive(KeyPart)]`: fields are written one after another, as the parts of a tuple are.
//!
//! Different values of one type never make the same key: the number of parts is fixed for a struct, and the
//! name that a variant begins with fixes it for an enum.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{
    Attribute, Data, DeriveInput, Error, Fields, Generics, Ident, LitStr, Member, Result, Type,
    TypeParam, Variant, WherePredicate, spanned::Spanned,
};

use crate::tokens::{mentions, site};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    refuse_attributes(&input.attrs)?;
    let arms = match &input.data {
        Data::Struct(data) => vec![struct_arm(input, &data.fields)?],
        Data::Enum(data) if data.variants.is_empty() => {
            return Err(Error::new(input.ident.span(), "an enum without variants has no keys"));
        }
        Data::Enum(data) => {
            let mut names = Vec::new();
            let arms = data.variants.iter().map(|variant| enum_arm(input, variant, &mut names));
            arms.collect::<Result<Vec<_>>>()?
        }
        Data::Union(data) => {
            let text = "a union cannot be a key: it does not know which of its fields it holds";
            return Err(Error::new(data.union_token.span, text));
        }
    };
    let name = &input.ident;
    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
    Ok(quote_spanned! {Span::mixed_site()=>
        #[automatically_derived]
        impl #impl_generics ::seawall::KeyPart for #name #ty_generics #where_clause {
            fn write(&self, key: &mut ::seawall::key::KeyBuffer) {
                match self {
                    #(#arms)*
                }
            }
        }
    })
}

fn struct_arm(input: &DeriveInput, fields: &Fields) -> Result<TokenStream> {
    let (pattern, writes) = parts(&input.generics, fields)?;
    if writes.is_empty() {
        return Err(Error::new(input.ident.span(), "a struct without fields names nothing"));
    }
    let separator = separator();
    let first = &writes[..1];
    let rest = &writes[1..];
    Ok(quote!(Self { #pattern } => { #(#first)* #(#separator #rest)* }))
}

fn enum_arm(
    input: &DeriveInput,
    variant: &Variant,
    names: &mut Vec<String>,
) -> Result<TokenStream> {
    let (text, span) = match renamed(&variant.attrs)? {
        Some(text) => (text.value(), text.span()),
        None => (variant.ident.to_string(), variant.ident.span()),
    };
    if text.is_empty() {
        return Err(Error::new(span, "an empty name names nothing"));
    }
    if names.contains(&text) {
        return Err(Error::new(span, format!("two variants are written as `{text}`")));
    }
    let key = Ident::new("key", Span::mixed_site());
    let (pattern, writes) = parts(&input.generics, &variant.fields)?;
    let separator = separator();
    let (variant, literal) = (&variant.ident, LitStr::new(&text, Span::call_site()));
    names.push(text);
    Ok(quote! {
        Self::#variant { #pattern } => {
            #key.push_part(#literal.as_bytes());
            #(#separator #writes)*
        }
    })
}

fn separator() -> TokenStream {
    quote_spanned!(Span::mixed_site()=> key.push_separator();)
}

/// A pattern that takes the fields apart, and a statement that writes each.
fn parts(generics: &Generics, fields: &Fields) -> Result<(TokenStream, Vec<TokenStream>)> {
    let (mut pattern, mut writes) = (TokenStream::new(), Vec::new());
    let key = Ident::new("key", Span::mixed_site());
    for (index, field) in fields.iter().enumerate() {
        refuse_attributes(&field.attrs)?;
        let member = field.ident.clone().map_or_else(|| Member::from(index), Member::Named);
        if is_phantom(&field.ty) {
            pattern.extend(quote!(#member: _,));
            continue;
        }
        require_bound(generics, &field.ty)?;
        // A field that is no key part is shown, not the derive.
        let part = format_ident!("part{index}", span = site(field.ty.span()));
        pattern.extend(quote!(#member: #part,));
        writes
            .push(quote_spanned!(site(field.ty.span())=> ::seawall::KeyPart::write(#part, #key);));
    }
    Ok((pattern, writes))
}

/// A type parameter that is part of the key and has no bounds at all gets a message of its own; with bounds
/// the compiler judges.
fn require_bound(generics: &Generics, ty: &Type) -> Result<()> {
    let inner = match ty {
        Type::Reference(reference) => &*reference.elem,
        ty => ty,
    };
    let Type::Path(path) = inner else { return Ok(()) };
    let named = |parameter: &&TypeParam| path.path.is_ident(&parameter.ident);
    let Some(parameter) = generics.type_params().find(named) else { return Ok(()) };
    let in_where =
        generics.where_clause.iter().flat_map(|clause| &clause.predicates).any(|predicate| {
            match predicate {
                WherePredicate::Type(bound) => {
                    mentions(bound.bounded_ty.to_token_stream(), &parameter.ident.to_string())
                }
                _ => false,
            }
        });
    if parameter.bounds.is_empty() && !in_where {
        let text = format!("`{0}` is part of the key: say `{0}: KeyPart`", parameter.ident);
        return Err(Error::new(parameter.ident.span(), text));
    }
    Ok(())
}

/// `PhantomData` holds nothing, so it writes nothing.
pub(crate) fn is_phantom(ty: &Type) -> bool {
    matches!(ty, Type::Path(path)
        if path.path.segments.last().is_some_and(|last| last.ident == "PhantomData"))
}

/// The name in `#[key(rename = "…")]`.
fn renamed(attributes: &[Attribute]) -> Result<Option<LitStr>> {
    let mut name = None;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("key")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("rename") {
                return Err(meta.error("unknown option; the only one is `rename = \"…\"`"));
            }
            if name.is_some() {
                return Err(meta.error("`rename` is given twice"));
            }
            name = Some(meta.value()?.parse::<LitStr>()?);
            Ok(())
        })?;
    }
    Ok(name)
}

fn refuse_attributes(attributes: &[Attribute]) -> Result<()> {
    match attributes.iter().find(|attribute| attribute.path().is_ident("key")) {
        Some(attribute) => {
            Err(Error::new(attribute.span(), "`#[key(…)]` is for variants of enums"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use syn::{DeriveInput, parse_quote};

    use super::expand;

    #[test]
    fn misuse_is_told_in_a_sentence() {
        let cases: [(DeriveInput, &str); 10] = [
            (
                parse_quote!(union U { a: u8 }),
                "a union cannot be a key: it does not know which of its fields it holds",
            ),
            (
                parse_quote!(
                    struct S;
                ),
                "a struct without fields names nothing",
            ),
            (
                parse_quote!(
                    enum E {}
                ),
                "an enum without variants has no keys",
            ),
            (
                parse_quote!(
                    struct S<T> {
                        a: T,
                    }
                ),
                "`T` is part of the key: say `T: KeyPart`",
            ),
            (
                parse_quote!(
                    enum E<T> {
                        A(&'static T),
                    }
                ),
                "`T` is part of the key: say `T: KeyPart`",
            ),
            (
                parse_quote!(
                    enum E {
                        A,
                        #[key(rename = "A")]
                        B,
                    }
                ),
                "two variants are written as `A`",
            ),
            (
                parse_quote!(
                    enum E {
                        #[key(rename = "")]
                        A,
                    }
                ),
                "an empty name names nothing",
            ),
            (
                parse_quote!(
                    enum E {
                        #[key(name = "a")]
                        A,
                    }
                ),
                "unknown option; the only one is `rename = \"…\"`",
            ),
            (
                parse_quote!(
                    struct S {
                        #[key(rename = "a")]
                        b: u8,
                    }
                ),
                "`#[key(…)]` is for variants of enums",
            ),
            (
                parse_quote!(
                    #[key(rename = "a")]
                    struct S(u8);
                ),
                "`#[key(…)]` is for variants of enums",
            ),
        ];
        for (input, text) in cases {
            assert_eq!(expand(&input).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn bounds_and_phantoms_are_accepted() {
        let accepted: [DeriveInput; 3] = [
            parse_quote!(
                struct S<T: KeyPart>(T);
            ),
            parse_quote!(
                struct S<T>(T)
                where
                    T: KeyPart;
            ),
            parse_quote!(
                struct Id<T>(u64, PhantomData<T>);
            ),
        ];
        for input in accepted {
            assert!(expand(&input).is_ok());
        }
    }
}
