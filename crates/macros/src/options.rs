//! Reads the options in the parentheses of an attribute: `cache = EXPR, key = EXPR, …`.

use proc_macro2::Span;
use syn::{
    Error, Expr, Ident, Result, Token,
    parse::{Parse, ParseStream},
};

/// Options of `#[cached]` and `#[invalidates]`.
pub(crate) struct Options {
    pub(crate) cache: Expr,
    pub(crate) key: Expr,
    /// Only `#[cached]` has it.
    pub(crate) freshness: Option<(Ident, Expr)>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let (mut cache, mut key, mut freshness) = (None, None, None);
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            let option = match name.to_string().as_str() {
                "cache" => &mut cache,
                "key" => &mut key,
                "freshness" => &mut freshness,
                other => {
                    let text = format!(
                        "unknown option `{other}`; the options are `cache`, `key` and `freshness`"
                    );
                    return Err(Error::new(name.span(), text));
                }
            };
            if option.is_some() {
                return Err(Error::new(name.span(), format!("`{name}` is given twice")));
            }
            input.parse::<Token![=]>()?;
            *option = Some((name, input.parse::<Expr>()?));
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        let missing = |text| Error::new(Span::call_site(), text);
        Ok(Options {
            cache: cache.ok_or_else(|| missing("`cache = …` is missing: which cache?"))?.1,
            key: key.ok_or_else(|| missing("`key = …` is missing: which entry?"))?.1,
            freshness,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn misuse_is_told_in_a_sentence() {
        let cases = [
            ("cache = shops", "`key = …` is missing: which entry?"),
            ("key = id", "`cache = …` is missing: which cache?"),
            (
                "cache = shops, key = id, ttl = 5",
                "unknown option `ttl`; the options are `cache`, `key` and `freshness`",
            ),
            ("cache = shops, key = a, key = b", "`key` is given twice"),
            ("cache, key = id", "expected `=`"),
            ("cache = shops key = id", "expected `,`"),
        ];
        for (options, text) in cases {
            let error = syn::parse_str::<Options>(options).err().expect("refused");
            assert_eq!(error.to_string(), text, "{options}");
        }
    }

    #[test]
    fn any_expression_and_a_comma_at_the_end_are_accepted() {
        let text = "cache = self.at(1)?.shops, key = (shop, sku.clone()), freshness = Strong,";
        assert!(syn::parse_str::<Options>(text).is_ok_and(|options| options.freshness.is_some()));
    }
}
