//! `#[derive(Member)]`: a newtype is the member that its one field is.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Data, DeriveInput, Error, Field, Member, Result, spanned::Spanned};

use crate::{key_part::is_phantom, tokens::site};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let only = |span| {
        Error::new(
            span,
            "`Member` can be derived for a struct with one field: others have no bytes",
        )
    };
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(data) => return Err(only(data.enum_token.span)),
        Data::Union(data) => return Err(only(data.union_token.span)),
    };
    let mut held = None;
    let mut phantoms = TokenStream::new();
    for (index, field) in fields.iter().enumerate() {
        let member = field.ident.clone().map_or_else(|| Member::from(index), Member::Named);
        if is_phantom(&field.ty) {
            phantoms.extend(quote!(#member: ::core::marker::PhantomData,));
        } else if held.replace((member, field)).is_some() {
            return Err(only(field.span()));
        }
    }
    let Some((member, Field { ty, .. })) = held else { return Err(only(input.ident.span())) };

    let name = &input.ident;
    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
    // A field that is no member is shown, not the derive.
    let inner = quote_spanned!(site(ty.span())=> <#ty as ::seawall::member::Member>);
    Ok(quote_spanned! {Span::mixed_site()=>
        #[automatically_derived]
        impl #impl_generics ::seawall::member::Member for #name #ty_generics #where_clause {
            fn to_member(&self) -> ::seawall::Result<::std::borrow::Cow<'_, [u8]>> {
                #inner::to_member(&self.#member)
            }

            fn from_member(bytes: &[u8]) -> ::seawall::Result<Self> {
                let held = #inner::from_member(bytes)?;
                ::core::result::Result::Ok(Self { #member: held, #phantoms })
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use syn::{DeriveInput, parse_quote};

    use super::expand;

    #[test]
    fn only_newtypes_are_members() {
        let refused: [DeriveInput; 4] = [
            parse_quote!(
                struct S;
            ),
            parse_quote!(
                struct S(u64, u64);
            ),
            parse_quote!(
                enum E {
                    A(u64),
                }
            ),
            parse_quote!(union U { a: u64 }),
        ];
        for input in refused {
            let text = "`Member` can be derived for a struct with one field: others have no bytes";
            assert_eq!(expand(&input).unwrap_err().to_string(), text);
        }
        assert!(
            expand(&parse_quote!(
                struct Id<T>(u64, PhantomData<T>);
            ))
            .is_ok()
        );
    }
}
