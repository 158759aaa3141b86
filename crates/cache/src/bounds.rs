//! The bounds on keys and values, in one place.

use seawall_client::key::KeyPart;

/// A key of a cache: any [`KeyPart`] that tasks may keep a copy of. Implemented for all that fit.
pub trait CacheKey: KeyPart + Clone + Send + Sync + 'static {}

impl<K: KeyPart + Clone + Send + Sync + 'static> CacheKey for K {}

/// A key of a cache, or what it borrows as: a cache with `String` keys is asked for a `&str`.
/// Implemented for all that fit.
pub trait KeyRef<K>: KeyPart + ToOwned<Owned = K> + Sync {}

impl<K, Q: KeyPart + ToOwned<Owned = K> + Sync + ?Sized> KeyRef<K> for Q {}

/// A value of a cache: whatever tasks may share. Implemented for all that fit. Its
/// [`Codec`](crate::Codec) writes and reads it; the default one needs serde's traits.
pub trait CacheValue: Send + Sync + 'static {}

impl<V: Send + Sync + 'static> CacheValue for V {}
