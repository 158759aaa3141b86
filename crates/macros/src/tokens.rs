//! Walks over tokens: which names occur, and `self` under another name.
//!
//! A syntax tree would miss what stands inside macros such as `format!`, and so would be no better.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use syn::{Error, Result};

/// A span that is shown as `span` and whose local names belong to the macro: they cannot be taken for names
/// in the user's code.
pub(crate) fn site(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

/// Whether the tokens may name this variable: as an identifier, or inside a string (`"{name}"`).
pub(crate) fn mentions(tokens: TokenStream, name: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => mentions(group.stream(), name),
        TokenTree::Ident(ident) => ident == name,
        TokenTree::Literal(literal) => literal.to_string().contains(name),
        TokenTree::Punct(_) => false,
    })
}

/// Whether a type holds a borrow that ends: a `&` or a lifetime other than `'static`. Function types are not
/// judged: what they are called with is not held.
pub(crate) fn borrows(ty: TokenStream) -> bool {
    const CALLABLE: [&str; 8] =
        ["fn", "Fn", "FnMut", "FnOnce", "AsyncFn", "AsyncFnMut", "AsyncFnOnce", "for"];
    !CALLABLE.iter().any(|name| mentions(ty.clone(), name)) && holds_borrow(ty)
}

fn holds_borrow(ty: TokenStream) -> bool {
    let mut tokens = ty.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let found = match &token {
            TokenTree::Group(group) => holds_borrow(group.stream()),
            // `&'static` is judged by its lifetime, which comes next.
            TokenTree::Punct(punct) if punct.as_char() == '&' => {
                !matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == '\'')
            }
            TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                !matches!(tokens.peek(), Some(TokenTree::Ident(name)) if name == "static")
            }
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
}

/// Replaces the value `self` by `this`. Paths such as `self::item`, imports, and `impl` and `trait` blocks
/// inside have a `self` of their own.
pub(crate) fn rename_self(tokens: TokenStream, this: &Ident) -> Result<TokenStream> {
    let mut renamed = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if word == "impl" || word == "trait" || word == "use" => {
                let ends = |token: &TokenTree| match token {
                    TokenTree::Group(group) => {
                        word != "use" && group.delimiter() == Delimiter::Brace
                    }
                    TokenTree::Punct(punct) => punct.as_char() == ';',
                    _ => false,
                };
                renamed.push(TokenTree::Ident(word.clone()));
                for token in tokens.by_ref() {
                    let end = ends(&token);
                    renamed.push(token);
                    if end {
                        break;
                    }
                }
            }
            TokenTree::Ident(word) if word == "self" => {
                let in_path =
                    matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == ':');
                let mut name = if in_path { word.clone() } else { this.clone() };
                if !in_path {
                    name.set_span(this.span().located_at(word.span()));
                }
                renamed.push(TokenTree::Ident(name));
            }
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), rename_self(group.stream(), this)?);
                inner.set_span(group.span());
                renamed.push(TokenTree::Group(inner));
            }
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.contains("{self}") || text.contains("{self:") {
                    let help = "`{self}` cannot be seen by `#[cached]`; write `{}` and pass `self`";
                    return Err(Error::new(literal.span(), help));
                }
                renamed.push(TokenTree::Literal(literal));
            }
            _ => renamed.push(token),
        }
    }
    Ok(renamed.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use proc_macro2::{Ident, Span, TokenStream};
    use quote::quote;

    use super::{borrows, mentions, rename_self};

    #[test]
    fn names_are_found_in_groups_and_in_strings() {
        assert!(mentions(quote!(f(vec![(id, 1)])), "id"));
        assert!(mentions(quote!(format!("{id:?}")), "id"));
        assert!(!mentions(quote!(f(idle)), "id"));
    }

    #[test]
    fn borrows_are_told_from_what_lives_for_ever() {
        for ty in [quote!(&str), quote!(Option<&str>), quote!(Cow<'a, str>), quote!((u8, &'_ T))] {
            assert!(borrows(ty.clone()), "{ty}");
        }
        let held = [quote!(&'static str), quote!(Vec<u8>), quote!(impl Fn(&str) -> bool)];
        for ty in held {
            assert!(!borrows(ty.clone()), "{ty}");
        }
    }

    fn renamed(tokens: TokenStream) -> Result<String, String> {
        let this = Ident::new("this", Span::call_site());
        rename_self(tokens, &this).map(|t| t.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn only_the_value_self_is_renamed() {
        let same = |one: TokenStream, other: TokenStream| {
            assert_eq!(renamed(one), Ok(other.to_string()));
        };
        same(quote!(self.db.get(self::ID, [self.x])), quote!(this.db.get(self::ID, [this.x])));
        same(quote!(format!("{}", self.name)), quote!(format!("{}", this.name)));
        same(
            quote!(use a::{self, b}; impl A for B { fn c(&self) { self.d(); } } self.e()),
            quote!(use a::{self, b}; impl A for B { fn c(&self) { self.d(); } } this.e()),
        );
        same(
            quote!(
                trait T {
                    fn c(&self);
                },
                self
            ),
            quote!(
                trait T {
                    fn c(&self);
                },
                this
            ),
        );
    }

    #[test]
    fn self_in_a_format_string_is_refused() {
        let text = "`{self}` cannot be seen by `#[cached]`; write `{}` and pass `self`";
        assert_eq!(renamed(quote!(format!("{self:?}"))), Err(text.to_owned()));
    }
}
