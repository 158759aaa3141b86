//! The pages' programs as tests: every Rust block of README.md, UPGRADING.md and docs/*.md is a documentation
//! test of this crate. Edition 2024 links all of them into one executable.
//!
//! A crate of its own, because pages and examples use axum and sqlx, which the toolkit's own tests do without.

/// Makes each block of a page a documentation test, named after the page.
#[cfg(doctest)]
macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        $(
            #[doc = include_str!(concat!("../../../", $path))]
            pub mod $name {}
        )*
    };
}

#[cfg(doctest)]
pages! {
    readme: "README.md",
    upgrading: "UPGRADING.md",
    big_keys: "docs/big-keys.md",
    bloom: "docs/bloom.md",
    cache: "docs/cache.md",
    connection: "docs/connection.md",
    guard: "docs/guard.md",
    hot_keys: "docs/hot-keys.md",
    ids: "docs/ids.md",
    inbox: "docs/inbox.md",
    keys: "docs/keys.md",
    limits: "docs/limits.md",
    locks: "docs/locks.md",
    macros: "docs/macros.md",
    observability: "docs/observability.md",
    queues: "docs/queues.md",
    sessions: "docs/sessions.md",
    social: "docs/social.md",
    stock: "docs/stock.md",
    streams: "docs/streams.md",
}
