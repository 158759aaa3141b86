//! A program that has the cache alone: URLs that need another feature are refused, and the sentence names
//! the feature. Run by `cargo xtask test` in a package of its own.

use seawall::{Error, Seawall};

const URLS: [(&str, &str); 5] = [
    ("rediss://127.0.0.1:1", "tls"),
    ("rediss-cluster://127.0.0.1:1", "tls"),
    ("rediss-sentinel://127.0.0.1:1/main", "tls"),
    ("embedded:", "embedded"),
    ("embedded:./data", "embedded"),
];

#[tokio::main(flavor = "current_thread")]
async fn main() {
    for (url, feature) in URLS {
        for refused in [Seawall::connect(url).await, Seawall::connect_lazy(url)] {
            let error = refused.expect_err("its feature is off");
            let says = format!("needs the feature `{feature}` of the crate seawall");
            assert!(matches!(error, Error::Invalid(_)), "{url}: {error:?}");
            assert!(error.to_string().contains(&says), "{url}: {error}");
        }
    }
    assert!(!std::path::Path::new("data").exists(), "nothing was made");
}
