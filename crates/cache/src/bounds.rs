//! The bounds on keys and values, in one place.

use seawall_client::key::KeyPart;
use serde::{Serialize, de::DeserializeOwned};

/// A key of a cache: any [`KeyPart`] that tasks may keep a copy of. Implemented for all that fit.
pub trait CacheKey: KeyPart + Clone + Send + Sync + 'static {}

impl<K: KeyPart + Clone + Send + Sync + 'static> CacheKey for K {}

/// A key of a cache, or what it borrows as: a cache with `String` keys is asked for a `&str`.
/// Implemented for all that fit.
pub trait KeyRef<K>: KeyPart + ToOwned<Owned = K> + Sync {}

impl<K, Q: KeyPart + ToOwned<Owned = K> + Sync + ?Sized> KeyRef<K> for Q {}

/// A value of a cache: whatever serde can write and read again. Implemented for all that fit.
pub trait CacheValue: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<V: Serialize + DeserializeOwned + Send + Sync + 'static> CacheValue for V {}
