//! A repository with its cache by attributes: `cargo run -p seawall-macros --example macros`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use seawall::{
    KeyPart, Seawall,
    cache::{Cache, CacheError},
    cached, invalidates,
};

/// The same key as `(shop, sku)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, KeyPart)]
struct ItemKey {
    shop: u64,
    sku: String,
}

/// A database, and the cache in front of it; a cheap clone, as `#[cached]` needs it.
#[derive(Clone)]
struct Prices {
    cache: Cache<ItemKey, u64>,
    table: Arc<Mutex<HashMap<ItemKey, u64>>>,
}

impl Prices {
    /// The price of an item in cents. The body runs when no level of the cache knows.
    #[cached(cache = self.cache, key = item)]
    async fn find(&self, item: &ItemKey) -> Result<Option<u64>, CacheError> {
        say(&format!("select price of {item:?}"));
        Ok(self.table.lock().unwrap_or_else(PoisonError::into_inner).get(item).copied())
    }

    /// Changes the price. The entry is invalidated when the body has ended.
    #[invalidates(cache = self.cache, key = item)]
    async fn set(&self, item: &ItemKey, cents: u64) -> Result<(), CacheError> {
        say(&format!("update price of {item:?}"));
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.insert(item.clone(), cents);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seawall = Seawall::connect("embedded:").await?;
    let prices = Prices { cache: seawall.cache("price").build()?, table: Arc::default() };
    let tea = ItemKey { shop: 7, sku: "tea".to_owned() };

    assert_eq!(prices.find(&tea).await?, None);
    prices.set(&tea, 250).await?;
    for _ in 0..3 {
        let cents = prices.find(&tea).await?;
        say(&format!("{cents:?}"));
        assert_eq!(cents, Some(250));
    }
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
