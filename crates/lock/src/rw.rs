//! Many readers, or one writer.
//!
//! A writer that waits keeps new readers out, so that a steady stream of them cannot starve it; that
//! mark is a lease too, refreshed with each look, and goes when the writer does. A reader cannot
//! become the writer while it reads: two that tried would wait for each other.

use seawall_client::{Handle, KeyPart};

use super::{Lock, request::Kind};

/// A read-write lock by its name; a cheap clone that holds nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::Seawall;
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let prices = seawall.rw_lock("prices");
/// let one = prices.read().try_acquire().await?.acquired().expect("nobody writes");
/// let other = prices.read().try_acquire().await?.acquired().expect("readers go together");
/// assert!(prices.write().try_acquire().await?.acquired().is_none());
/// # drop((one, other)); seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct RwLock {
    read: Lock,
    write: Lock,
}

impl RwLock {
    /// A lock that many may hold for reading, or one for writing.
    #[must_use]
    pub fn new(handle: &Handle, name: impl KeyPart) -> Self {
        let lock = |kind| Lock::of_kind(handle, "rw", &name, kind);
        RwLock { read: lock(Kind::Read), write: lock(Kind::Write) }
    }

    /// The lock for reading, to be given options and taken.
    #[must_use]
    pub fn read(&self) -> Lock {
        self.read.clone()
    }

    /// The lock for writing, to be given options and taken.
    #[must_use]
    pub fn write(&self) -> Lock {
        self.write.clone()
    }
}
