//! `#[invalidates]`: the body becomes the work of `Cache::write`.
//!
//! The work is awaited by the caller and may borrow, so arguments stay where they are.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{Error, Result, spanned::Spanned};

use crate::{
    function::{borrowed_key, parse, receiver, result_of, returns, set_body, statements},
    options::Options,
    tokens::site,
};

pub(crate) fn expand(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let mut function = parse("invalidates", item)?;
    let options: Options = syn::parse2(options)?;
    if let Some((name, _)) = options.freshness {
        return Err(Error::new(
            name.span(),
            "`freshness` is for `#[cached]`: a write reads nothing",
        ));
    }
    let (output, _) = result_of("invalidates", &function)?;
    let key = borrowed_key(&options.key, &function);
    let cache = receiver(&options.cache);
    let (body, pinned) = (statements(&function), returns(output));
    // A missing conversion of the error is shown at the return type.
    let conversion =
        quote_spanned!(site(output.span())=> ::seawall::cache::WriteError::into_work_error);
    let body = quote_spanned! {Span::mixed_site()=>
        let key = #key;
        let work = async {
            #pinned
            #body
        };
        let written = #cache.write(key, work).await;
        written.map(|(value, _)| value).map_err(#conversion)
    };
    set_body(&mut function, body);
    Ok(function.into_token_stream())
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::expand;

    /// The whole expansion, as a reader would write it.
    #[test]
    fn a_method_becomes_a_call_of_write() {
        let item = quote! {
            /// Renames a shop.
            pub async fn rename(&self, id: u64, name: &str) -> Result<(), Error> {
                self.db.rename(id, name).await
            }
        };
        let wanted = quote! {
            /// Renames a shop.
            pub async fn rename(&self, id: u64, name: &str) -> Result<(), Error> {
                let key = &id;
                let work = async {
                    if let ::core::option::Option::Some(never) =
                        ::core::option::Option::None::<Result<(), Error> >
                    {
                        return never;
                    }
                    self.db.rename(id, name).await
                };
                let written = self.shops.write(key, work).await;
                written
                    .map(|(value, _)| value)
                    .map_err(::seawall::cache::WriteError::into_work_error)
            }
        };
        let expanded = expand(quote!(cache = self.shops, key = id), item).unwrap();
        let plain = |text: String| text.replace(char::is_whitespace, "");
        assert_eq!(plain(expanded.to_string()), plain(wanted.to_string()));
    }

    #[test]
    fn misuse_is_told_in_a_sentence() {
        let options = quote!(cache = SHOPS, key = 1, freshness = Freshness::Strong);
        let error = expand(
            options,
            quote!(
                async fn f() -> Result<(), E> {
                    Ok(())
                }
            ),
        )
        .unwrap_err();
        assert_eq!(error.to_string(), "`freshness` is for `#[cached]`: a write reads nothing");
        let error = expand(
            quote!(cache = SHOPS),
            quote!(
                async fn f() {}
            ),
        )
        .unwrap_err();
        assert_eq!(error.to_string(), "`key = …` is missing: which entry?");
    }
}
