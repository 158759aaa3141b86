//! Derives for keys and members, and attributes that put a cache around a function.
//!
//! Add `seawall` with the feature `macros` and use them from there. Each expands to calls of the public API
//! that a reader could have written; docs/macros.md shows them.

mod cached;
mod captures;
mod function;
mod invalidates;
mod key_part;
mod member;
mod options;
mod tokens;

use proc_macro::TokenStream;
use syn::{DeriveInput, Error, Result, parse_macro_input};

/// Derives [`KeyPart`](../seawall/key/trait.KeyPart.html): fields are written as the parts of a tuple are.
///
/// An enum writes the name of its variant first; `#[key(rename = "…")]` on a variant writes another one.
/// `PhantomData` fields write nothing. A type parameter that is part of the key needs the bound `T: KeyPart`.
///
/// A key of a cache is also `Clone`, `Send`, `Sync` and `'static`; for `get_many` also `Eq` and `Hash`.
///
/// ```
/// use seawall::KeyPart;
///
/// #[derive(Clone, KeyPart)]
/// struct ItemKey {
///     shop: u64,
///     sku: String,
/// }
///
/// #[derive(Clone, KeyPart)]
/// enum Page {
///     Home,
///     #[key(rename = "item")]
///     Item(ItemKey),
/// }
///
/// let item = ItemKey { shop: 7, sku: "a:b".to_owned() };
/// assert_eq!(item.to_key()?, (7, "a:b").to_key()?);
/// assert_eq!(Page::Home.to_key()?, b"Home");
/// assert_eq!(Page::Item(item).to_key()?, b"item:7:a%3Ab");
/// # Ok::<(), seawall::Error>(())
/// ```
///
/// Other types are refused at compile time:
///
/// ```compile_fail
/// #[derive(seawall::KeyPart)]
/// union Key {
///     number: u64,
/// }
/// ```
#[proc_macro_derive(KeyPart, attributes(key))]
pub fn derive_key_part(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    key_part::expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Derives [`Member`](../seawall/member/trait.Member.html) for a struct with one field, as the member that the
/// field is. `PhantomData` fields do not count.
///
/// `Member` also needs `Clone`, `Eq`, `Hash` and `Ord`. The derived `from_member` fills the field with whatever
/// Redis has: implement the trait by hand if not every value of the field is allowed.
///
/// ```
/// use seawall::Member;
///
/// #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Member)]
/// struct UserId(u64);
///
/// assert_eq!(UserId(42).to_member()?.as_ref(), b"42");
/// assert_eq!(UserId::from_member(b"42")?.0, 42);
/// assert!(UserId::from_member(b"forty-two").is_err());
/// # Ok::<(), seawall::Error>(())
/// ```
#[proc_macro_derive(Member)]
pub fn derive_member(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    member::expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Caches the result of an `async fn`: the body becomes the loader of
/// [`Cache::get_or_load`](../seawall/cache/struct.Cache.html#method.get_or_load).
///
/// | Option | |
/// | --- | --- |
/// | `cache = EXPR` | the cache, such as `self.shops`; `&Cache`, `Arc<Cache>` and statics work too |
/// | `key = EXPR` | the key, from the arguments. The macro borrows it; write `*name` for a reference that is not an argument |
/// | `freshness = EXPR` | a [`Freshness`](../seawall/cache/enum.Freshness.html). Default: `Freshness::Cached` |
///
/// The function returns `Result<Option<V>, E>` or `Result<V, E>`, for a cache of `V`; `E` has
/// `From<CacheError>`, and converts into `Box<dyn Error + Send + Sync>`. Write `Arc<V>` instead of `V` to
/// return the cache's copy instead of a clone of it.
///
/// A load may outlive its caller, so the loader owns what the body names: `&T` arguments are made owned,
/// arguments that the options name are cloned, `&self` is cloned, and others are moved.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use seawall::{Seawall, cache::{Cache, CacheError}, cached};
///
/// #[derive(Clone)]
/// struct Shops {
///     cache: Cache<u64, String>,
/// }
///
/// impl Shops {
///     #[cached(cache = self.cache, key = id)]
///     async fn name(&self, id: u64) -> Result<Option<String>, CacheError> {
///         Ok((id == 42).then(|| "tea house".to_owned())) // in real life: select name from shop
///     }
/// }
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let shops = Shops { cache: seawall.cache("shop").build()? };
/// assert_eq!(shops.name(42).await?.as_deref(), Some("tea house"));
/// # seawall.shutdown().await; Ok(()) }
/// ```
///
/// Misuse is refused at compile time:
///
/// ```compile_fail
/// # use seawall::{cache::{Cache, CacheError}, cached};
/// #[cached(cache = shops, key = id)]
/// fn name(shops: &Cache<u64, String>, id: u64) -> Result<String, CacheError> {
///     Ok(id.to_string()) // not an async fn
/// }
/// ```
#[proc_macro_attribute]
pub fn cached(options: TokenStream, item: TokenStream) -> TokenStream {
    or_original(cached::expand(options.into(), item.clone().into()), item)
}

/// Invalidates an entry after an `async fn` that changes its source: the body becomes the work of
/// [`Cache::write`](../seawall/cache/struct.Cache.html#method.write).
///
/// | Option | |
/// | --- | --- |
/// | `cache = EXPR` | the cache |
/// | `key = EXPR` | the key, from the arguments; as for [`macro@cached`]. It is borrowed while the body runs: clone it if the body consumes it |
///
/// Repeat the attribute for several caches or keys. The function returns `Result<T, E>`; `E` has
/// `From<seawall::Error>`.
///
/// | `Cache::write` has | the function returns |
/// | --- | --- |
/// | `Applied` | `Ok` with the body's value |
/// | `Queued` | the same: the entry is invalidated when Redis answers again |
/// | `WriteError::Work` | the body's error as it is; the entry is invalidated |
/// | `WriteError::NotRun` | that error, converted; the body did not run |
/// | `WriteError::NotInvalidated` | `Error::Indeterminate`, converted; the body succeeded |
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use seawall::{Error, Seawall, cache::Cache, invalidates};
///
/// #[invalidates(cache = shops, key = id)]
/// async fn rename(shops: &Cache<u64, String>, id: u64, name: &str) -> Result<(), Error> {
///     assert!(!name.is_empty()); // in real life: update shop set name = …
///     Ok(())
/// }
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let shops = seawall.cache("shop").build()?;
/// rename(&shops, 42, "coffee house").await?;
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[proc_macro_attribute]
pub fn invalidates(options: TokenStream, item: TokenStream) -> TokenStream {
    or_original(invalidates::expand(options.into(), item.clone().into()), item)
}

/// The expansion. If there is none, the error beside the item as it was, so that its callers are not reported
/// as well.
fn or_original(expanded: Result<proc_macro2::TokenStream>, item: TokenStream) -> TokenStream {
    match expanded {
        Ok(expanded) => expanded.into(),
        Err(error) => {
            let mut tokens = TokenStream::from(error.into_compile_error());
            tokens.extend(item);
            tokens
        }
    }
}
