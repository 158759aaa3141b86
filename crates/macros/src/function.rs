//! Checks the function under an attribute, and what both attributes need to know of it.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{
    Block, Error, Expr, ExprLit, FnArg, GenericArgument, ItemFn, Lit, Pat, PathArguments, Result,
    ReturnType, Stmt, Type, spanned::Spanned,
};

use crate::tokens::site;

/// Reads the item under `#[attribute]`, which has to be an `async fn` with a body.
pub(crate) fn parse(attribute: &str, item: TokenStream) -> Result<ItemFn> {
    let function: ItemFn = syn::parse2(item).map_err(|error| {
        Error::new(error.span(), format!("`#[{attribute}]` needs an `async fn` with a body"))
    })?;
    if function.sig.asyncness.is_none() {
        let text =
            format!("`#[{attribute}]` needs an `async fn`: the cache is asked over the network");
        return Err(Error::new(function.sig.fn_token.span, text));
    }
    Ok(function)
}

/// The statements of the body. Without its braces, which the compiler would call unnecessary.
pub(crate) fn statements(function: &ItemFn) -> TokenStream {
    let statements = &function.block.stmts;
    quote!(#(#statements)*)
}

/// Replaces the body.
pub(crate) fn set_body(function: &mut ItemFn, body: TokenStream) {
    let stmts = vec![Stmt::Expr(Expr::Verbatim(body), None)];
    *function.block = Block { brace_token: function.block.brace_token, stmts };
}

/// The return type, and its `T` of `Result<T, E>`. The compiler shows macros no aliases, so `Result` has to
/// be written out; which `Result` it is does not matter.
pub(crate) fn result_of<'a>(attribute: &str, function: &'a ItemFn) -> Result<(&'a Type, &'a Type)> {
    let output = match &function.sig.output {
        ReturnType::Type(_, output) => &**output,
        ReturnType::Default => {
            let text = format!("`#[{attribute}]` needs a function that returns `Result<_, E>`");
            return Err(Error::new(function.sig.ident.span(), text));
        }
    };
    let inner = argument_of(output, "Result").ok_or_else(|| {
        let text = format!("`#[{attribute}]` needs the return type `Result<_, E>`, written out");
        Error::new(output.span(), text)
    })?;
    Ok((output, inner))
}

/// The first argument of a type that is called `name`, such as `V` of `Option<V>`.
pub(crate) fn argument_of<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let ty = match ty {
        Type::Group(group) => &*group.elem,
        Type::Paren(paren) => &*paren.elem,
        ty => ty,
    };
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// The key as the cache takes it: by reference. What is a reference already stays as it is: `&x`, a string,
/// or an argument whose type is a reference.
pub(crate) fn borrowed_key(key: &Expr, function: &ItemFn) -> TokenStream {
    let is_reference = match key {
        Expr::Reference(_) => true,
        Expr::Lit(ExprLit { lit: Lit::Str(_), .. }) => true,
        Expr::Path(path) => function.sig.inputs.iter().any(|input| match input {
            FnArg::Typed(input) => {
                matches!(&*input.pat, Pat::Ident(name) if path.path.is_ident(&name.ident))
                    && matches!(&*input.ty, Type::Reference(_))
            }
            FnArg::Receiver(_) => false,
        }),
        _ => false,
    };
    let span = site(key.span());
    let key = operand(key);
    if is_reference { key } else { quote_spanned!(span=> &#key) }
}

/// An expression to put `&` before: in parentheses, if it needs any.
fn operand(expr: &Expr) -> TokenStream {
    match expr {
        Expr::Reference(_) | Expr::Unary(_) => quote!(#expr),
        _ => receiver(expr),
    }
}

/// An expression to call a method of: in parentheses, if it needs any.
pub(crate) fn receiver(expr: &Expr) -> TokenStream {
    match expr {
        Expr::Array(_)
        | Expr::Call(_)
        | Expr::Field(_)
        | Expr::Index(_)
        | Expr::Lit(_)
        | Expr::Macro(_)
        | Expr::MethodCall(_)
        | Expr::Paren(_)
        | Expr::Path(_)
        | Expr::Try(_)
        | Expr::Tuple(_) => quote!(#expr),
        _ => quote_spanned!(site(expr.span())=> (#expr)),
    }
}

/// The first statement of a block that stands for the body of a function: says what `return` and `?` have
/// to produce, as the signature does. It never runs.
pub(crate) fn returns(output: &Type) -> TokenStream {
    quote_spanned! {site(output.span())=>
        if let ::core::option::Option::Some(never) = ::core::option::Option::None::<#output> {
            return never;
        }
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;
    use syn::{ItemFn, parse_quote};

    use super::{borrowed_key, parse, receiver, result_of};

    #[test]
    fn what_is_no_async_function_is_refused() {
        let refused = |item| parse("cached", item).expect_err("refused").to_string();
        let text = "`#[cached]` needs an `async fn` with a body";
        assert_eq!(
            refused(quote!(
                struct Shop;
            )),
            text
        );
        assert_eq!(
            refused(quote!(
                async fn shop() -> Result<(), E>;
            )),
            text
        );
        let text = "`#[cached]` needs an `async fn`: the cache is asked over the network";
        assert_eq!(
            refused(quote!(
                fn shop() -> Result<(), E> {
                    Ok(())
                }
            )),
            text
        );
    }

    #[test]
    fn the_return_type_has_to_be_a_result() {
        let refused = |function: ItemFn| {
            result_of("invalidates", &function).expect_err("refused").to_string()
        };
        let text = "`#[invalidates]` needs a function that returns `Result<_, E>`";
        assert_eq!(
            refused(parse_quote!(
                async fn shop() {}
            )),
            text
        );
        let text = "`#[invalidates]` needs the return type `Result<_, E>`, written out";
        assert_eq!(
            refused(parse_quote!(
                async fn shop() -> Option<Shop> {
                    None
                }
            )),
            text
        );
        let function: ItemFn = parse_quote!(
            async fn shop() -> std::io::Result<u64> {
                Ok(1)
            }
        );
        assert!(result_of("invalidates", &function).is_ok());
    }

    #[test]
    fn a_key_is_borrowed_once() {
        let function: ItemFn = parse_quote!(
            async fn shop(id: u64, name: &str) {}
        );
        let borrowed = |key| borrowed_key(&key, &function).to_string();
        assert_eq!(borrowed(parse_quote!(id)), "& id");
        assert_eq!(borrowed(parse_quote!(name)), "name");
        assert_eq!(borrowed(parse_quote!(&id)), "& id");
        assert_eq!(borrowed(parse_quote!("all")), "\"all\"");
        assert_eq!(borrowed(parse_quote!(*id.name())), "& * id . name ()");
        assert_eq!(borrowed(parse_quote!((id, 1))), "& (id , 1)");
        assert_eq!(borrowed(parse_quote!(id + 1)), "& (id + 1)");
    }

    #[test]
    fn a_cache_is_put_in_parentheses_where_needed() {
        assert_eq!(receiver(&parse_quote!(self.shops)).to_string(), "self . shops");
        assert_eq!(receiver(&parse_quote!(&*SHOPS)).to_string(), "(& * SHOPS)");
    }
}
