//! `#[cached]`: the body becomes the loader of `Cache::get_or_load`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Result, Type, spanned::Spanned};

use crate::{
    captures::{Captures, capture},
    function::{argument_of, borrowed_key, parse, receiver, result_of, returns, set_body},
    options::Options,
    tokens::site,
};

/// What the function returns, by its signature.
#[derive(Clone, Copy)]
struct Shape {
    /// `Result<Option<V>, E>`, not `Result<V, E>`.
    optional: bool,
    /// `Arc<V>` instead of `V`: the cache's own copy.
    shared: bool,
}

impl Shape {
    fn of(inner: &Type) -> Self {
        let found = argument_of(inner, "Option");
        let shared = argument_of(found.unwrap_or(inner), "Arc").is_some();
        Shape { optional: found.is_some(), shared }
    }

    /// From the body's result to the loader's.
    fn loaded(self) -> TokenStream {
        let unshared = quote!(::std::sync::Arc::unwrap_or_clone);
        let loaded = quote!(::seawall::cache::Loaded);
        let span = Span::mixed_site();
        match (self.optional, self.shared) {
            (true, false) => quote!(#loaded::from),
            (false, false) => quote!(#loaded::Found),
            (true, true) => quote_spanned!(span=> |found| #loaded::from(found.map(#unshared))),
            (false, true) => quote_spanned!(span=> |value| #loaded::Found(#unshared(value))),
        }
    }

    /// From what the cache has read to the function's result.
    fn answer(self, function: &str) -> TokenStream {
        let ok = quote!(::core::result::Result::Ok);
        let span = Span::mixed_site();
        let value = if self.shared {
            quote_spanned!(span=> value)
        } else {
            quote_spanned!(span=> ::std::sync::Arc::unwrap_or_clone(value))
        };
        if self.optional && self.shared {
            return quote_spanned!(span=> #ok(read.value));
        }
        if self.optional {
            return quote_spanned!(span=> #ok(read.value.map(::std::sync::Arc::unwrap_or_clone)));
        }
        let text = format!("`{function}` has no value: the cache has the key as missing");
        quote_spanned! {span=>
            match read.value {
                ::core::option::Option::Some(value) => #ok(#value),
                ::core::option::Option::None => ::core::result::Result::Err(
                    ::core::convert::From::from(::seawall::cache::CacheError::Load(
                        ::std::sync::Arc::new(::std::io::Error::new(
                            ::std::io::ErrorKind::NotFound,
                            #text,
                        )),
                    )),
                ),
            }
        }
    }
}

pub(crate) fn expand(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let mut function = parse("cached", item)?;
    let options: Options = syn::parse2(options)?;
    let (output, inner) = result_of("cached", &function)?;
    let (output, shape) = (output.clone(), Shape::of(inner));

    let key = borrowed_key(&options.key, &function);
    let cache = receiver(&options.cache);
    let freshness = options.freshness.map(|(_, freshness)| freshness);
    let others = quote!(#cache #key #freshness);
    let Captures { outside, inside, body } = capture(&mut function, &others)?;

    let span = Span::mixed_site();
    let pinned = returns(&output);
    let loaded = shape.loaded();
    let load = quote_spanned! {span=>
        let load = {
            #outside
            move || async move {
                let loaded: #output = async move {
                    #pinned
                    #inside
                    #body
                }
                .await;
                ::core::result::Result::map(loaded, #loaded)
            }
        };
    };
    let read = match freshness {
        None => quote_spanned!(span=> #cache.get_or_load(#key, load)),
        Some(freshness) => quote_spanned!(span=> #cache.get_or_load_as(#freshness, #key, load)),
    };
    // A missing conversion of the error is shown at the return type.
    let asked = quote_spanned!(site(output.span())=> ?);
    let answer = shape.answer(&function.sig.ident.to_string());
    let body = quote_spanned! {span=>
        #load
        let read = #read.await #asked;
        #answer
    };
    set_body(&mut function, body);
    Ok(function.into_token_stream())
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use quote::quote;

    use super::expand;

    fn expanded(options: TokenStream, item: TokenStream) -> String {
        expand(options, item).unwrap().to_string()
    }

    /// The whole expansion, as a reader would write it.
    #[test]
    fn a_method_becomes_a_call_of_get_or_load() {
        let item = quote! {
            /// Finds a shop.
            #[instrument]
            pub(crate) async fn shop(&self, id: u64) -> Result<Option<Shop>, Error> {
                self.db.shop(id).await
            }
        };
        let wanted = quote! {
            /// Finds a shop.
            #[instrument]
            pub(crate) async fn shop(&self, id: u64) -> Result<Option<Shop>, Error> {
                let load = {
                    let this = ::core::clone::Clone::clone(self);
                    let id = ::core::clone::Clone::clone(&id);
                    move || async move {
                        let loaded: Result<Option<Shop>, Error> = async move {
                            if let ::core::option::Option::Some(never) =
                                ::core::option::Option::None::<Result<Option<Shop>, Error> >
                            {
                                return never;
                            }
                            let this = &this;
                            this.db.shop(id).await
                        }
                        .await;
                        ::core::result::Result::map(loaded, ::seawall::cache::Loaded::from)
                    }
                };
                let read = self.shops.get_or_load(&id, load).await?;
                ::core::result::Result::Ok(read.value.map(::std::sync::Arc::unwrap_or_clone))
            }
        };
        let options = quote!(cache = self.shops, key = id);
        let plain = |text: &str| text.replace(char::is_whitespace, "");
        assert_eq!(plain(&expanded(options, item)), plain(&wanted.to_string()));
    }

    #[test]
    fn freshness_goes_to_the_cache() {
        let options = quote!(cache = SHOPS, key = id, freshness = Freshness::Strong);
        let text = expanded(
            options,
            quote!(
                async fn f(id: u64) -> Result<u64, E> {
                    Ok(id)
                }
            ),
        );
        assert!(
            text.contains("SHOPS . get_or_load_as (Freshness :: Strong , & id , load)"),
            "{text}"
        );
    }

    #[test]
    fn the_return_type_is_told_in_a_sentence() {
        let refused = |item| expand(quote!(cache = SHOPS, key = 1), item).unwrap_err().to_string();
        let text = refused(quote!(
            async fn f() -> Option<u64> {
                None
            }
        ));
        assert_eq!(text, "`#[cached]` needs the return type `Result<_, E>`, written out");
    }
}
