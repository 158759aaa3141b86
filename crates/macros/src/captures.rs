//! Takes the arguments of a function into a loader that may outlive the call.
//!
//! The cache finishes a load although its caller is gone, so a loader is `'static`. The body still sees each
//! argument with the type that the signature says: a reference is owned by the loader and lent to the body.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{Error, FnArg, ItemFn, Pat, Receiver, ReceiverKind, Result, Type, spanned::Spanned};

use crate::{
    function::statements,
    tokens::{borrows, mentions, rename_self, site},
};

/// What is written around the body.
#[derive(Default)]
pub(crate) struct Captures {
    /// Before the loader: copies of what the loader keeps.
    pub(crate) outside: TokenStream,
    /// Before the body: what is lent to it.
    pub(crate) inside: TokenStream,
    /// The statements of the body, with `self` under the name that the loader has for it.
    pub(crate) body: TokenStream,
}

/// Captures what the body names. `others` are the attribute's expressions: what they name has to stay, and
/// is cloned; the rest is moved. The signature loses each `mut`, which the loader has instead.
pub(crate) fn capture(function: &mut ItemFn, others: &TokenStream) -> Result<Captures> {
    let mut captures = Captures { body: statements(function), ..Captures::default() };
    for input in &mut function.sig.inputs {
        match input {
            FnArg::Receiver(receiver) => captures.receiver(receiver, others)?,
            FnArg::Typed(input) => {
                let ty = match &*input.ty {
                    Type::Group(group) => &*group.elem,
                    ty => ty,
                };
                captures.argument(&mut input.pat, ty, others)?;
            }
        }
    }
    Ok(captures)
}

impl Captures {
    fn receiver(&mut self, receiver: &mut Receiver, others: &TokenStream) -> Result<()> {
        if !mentions(self.body.clone(), "self") {
            receiver.mutability = None;
            return Ok(());
        }
        let by_reference = match &receiver.kind {
            ReceiverKind::Reference(_, _, Some(mutable)) => return Err(exclusive(mutable.span)),
            ReceiverKind::Reference(..) => true,
            ReceiverKind::Typed(_, ty) => match &**ty {
                Type::Reference(reference) => match reference.mutability {
                    Some(mutable) => return Err(exclusive(mutable.span)),
                    None => true,
                },
                _ => false,
            },
            _ => false,
        };
        let mutable = receiver.mutability.take();
        let span = site(receiver.span());
        let this = Ident::new("this", Span::mixed_site());
        let itself = &receiver.self_token;
        self.body = rename_self(std::mem::take(&mut self.body), &this)?;
        self.outside.extend(match (by_reference, mentions(others.clone(), "self")) {
            (true, _) => quote_spanned!(span=> let #this = ::core::clone::Clone::clone(#itself);),
            (false, true) => {
                quote_spanned!(span=> let #this = ::core::clone::Clone::clone(&#itself);)
            }
            (false, false) => quote_spanned!(span=> let #this = #itself;),
        });
        if by_reference {
            self.inside.extend(quote_spanned!(span=> let #this = &#this;));
        } else if mutable.is_some() {
            self.inside.extend(quote_spanned!(span=> let mut #this = #this;));
        }
        Ok(())
    }

    fn argument(&mut self, pat: &mut Pat, ty: &Type, others: &TokenStream) -> Result<()> {
        let lent = match (&*pat, ty) {
            (_, Type::Reference(reference)) if reference.mutability.is_some() => {
                return Err(exclusive(ty.span()));
            }
            (Pat::Ident(_), Type::Reference(reference)) if borrows(quote::quote!(#reference)) => {
                Some(&*reference.elem)
            }
            _ => None,
        };
        if borrows(lent.unwrap_or(ty).to_token_stream()) && !matches!(pat, Pat::Reference(_)) {
            let text = "the load may outlive the call, so it cannot keep a borrow inside of a type: \
                        take an owned type, or a plain `&T`";
            return Err(Error::new(ty.span(), text));
        }
        let mut names = Vec::new();
        bindings(pat, &mut names)?;
        for (mut name, mutable) in names {
            if !mentions(self.body.clone(), &name.to_string()) {
                continue;
            }
            // Resolved as the user's own name; that it may be unused is the macro's doing.
            name.set_span(name.span().resolved_at(Span::call_site()));
            self.one(&name, mutable, lent, others);
        }
        Ok(())
    }

    fn one(&mut self, name: &Ident, mutable: bool, lent: Option<&Type>, others: &TokenStream) {
        let span = site(name.span());
        let mutable = mutable.then(|| quote_spanned!(span=> mut));
        if let Some(elem) = lent {
            let owned = quote_spanned!(span=> let #name = ::std::borrow::ToOwned::to_owned(#name););
            self.outside.extend(owned);
            // `impl Trait` cannot be named here; nothing is owned in another form then, either.
            let ty = (!mentions(elem.to_token_stream(), "impl"))
                .then(|| quote_spanned!(span=> : &#elem));
            self.inside.extend(quote_spanned!(span=> let #mutable #name #ty = &#name;));
            return;
        }
        if mentions(others.clone(), &name.to_string()) {
            let copy = quote_spanned!(span=> let #name = ::core::clone::Clone::clone(&#name););
            self.outside.extend(copy);
        }
        if mutable.is_some() {
            self.inside.extend(quote_spanned!(span=> let #mutable #name = #name;));
        }
    }
}

/// The variables that a pattern binds, and whether each is `mut`, which is taken from it.
fn bindings(pat: &mut Pat, names: &mut Vec<(Ident, bool)>) -> Result<()> {
    match pat {
        Pat::Ident(pat) => {
            if let Some(by_ref) = pat.by_ref {
                return Err(Error::new(
                    by_ref.span,
                    "the load may outlive the call: no `ref` here",
                ));
            }
            names.push((pat.ident.clone(), pat.mutability.take().is_some()));
            if let Some((_, inner)) = &mut pat.subpat {
                bindings(inner, names)?;
            }
        }
        Pat::Paren(pat) => bindings(&mut pat.pat, names)?,
        Pat::Reference(pat) => bindings(&mut pat.pat, names)?,
        Pat::Slice(pat) => pat.elems.iter_mut().try_for_each(|pat| bindings(pat, names))?,
        Pat::Tuple(pat) => pat.elems.iter_mut().try_for_each(|pat| bindings(pat, names))?,
        Pat::TupleStruct(pat) => pat.elems.iter_mut().try_for_each(|pat| bindings(pat, names))?,
        Pat::Struct(pat) => {
            pat.fields.iter_mut().try_for_each(|field| bindings(&mut field.pat, names))?;
        }
        _ => {}
    }
    Ok(())
}

fn exclusive(span: Span) -> Error {
    Error::new(span, "the load may outlive the call, so it cannot keep a `&mut`")
}

#[cfg(test)]
mod tests {
    use quote::quote;
    use syn::{ItemFn, parse_quote};

    use super::{Captures, capture};

    fn captured(mut function: ItemFn) -> Captures {
        capture(&mut function, &quote!(self.shops, id)).unwrap()
    }

    #[test]
    fn what_the_key_names_is_cloned_and_the_rest_is_moved() {
        let captures = captured(parse_quote!(
            async fn f(id: Id, name: String, unused: u8) {
                g(id, name)
            }
        ));
        let clone = quote!(let id = ::core::clone::Clone::clone(&id););
        assert_eq!(captures.outside.to_string(), clone.to_string());
        assert!(captures.inside.is_empty());
    }

    #[test]
    fn references_are_owned_and_lent() {
        let captures = captured(parse_quote!(
            async fn f(&self, name: &'a str) {
                self.g(name)
            }
        ));
        let outside = quote! {
            let this = ::core::clone::Clone::clone(self);
            let name = ::std::borrow::ToOwned::to_owned(name);
        };
        let inside = quote!(let this = &this; let name: &str = &name;);
        assert_eq!(captures.outside.to_string(), outside.to_string());
        assert_eq!(captures.inside.to_string(), inside.to_string());
        assert_eq!(captures.body.to_string(), quote!(this.g(name)).to_string());
    }

    #[test]
    fn patterns_and_mut_go_into_the_loader() {
        let mut function: ItemFn = parse_quote!(
            async fn f(Path((id, mut n)): Path) {
                n += id;
            }
        );
        let captures = capture(&mut function, &quote!(cache)).unwrap();
        assert_eq!(captures.inside.to_string(), quote!(let mut n = n;).to_string());
        assert!(!quote!(#function).to_string().contains("Path ((id , mut"));
    }

    #[test]
    fn what_cannot_outlive_the_call_is_refused() {
        let cases: [(ItemFn, &str); 5] = [
            (
                parse_quote!(
                    async fn f(&mut self) {
                        self.g()
                    }
                ),
                "cannot keep a `&mut`",
            ),
            (
                parse_quote!(
                    async fn f(self: &mut Self) {
                        self.g()
                    }
                ),
                "cannot keep a `&mut`",
            ),
            (
                parse_quote!(
                    async fn f(x: &mut u8) {
                        g(x)
                    }
                ),
                "cannot keep a `&mut`",
            ),
            (
                parse_quote!(
                    async fn f(x: Option<&str>) {
                        g(x)
                    }
                ),
                "borrow inside of a type",
            ),
            (
                parse_quote!(
                    async fn f(ref x: u8) {
                        g(x)
                    }
                ),
                "no `ref` here",
            ),
        ];
        for (mut function, text) in cases {
            let error = capture(&mut function, &quote!(cache)).err().expect("refused");
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
