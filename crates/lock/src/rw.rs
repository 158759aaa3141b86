//! A read-write lock: many readers or one writer.
//!
//! A waiting writer keeps new readers out, so that a steady stream of readers cannot starve it. Its
//! mark is a lease too, refreshed with each attempt, and it disappears with the writer. A reader
//! cannot upgrade to a writer while it reads: two readers that tried would wait for each other.

use seawall_client::{Handle, KeyPart};

use super::{Lock, request::Kind};

/// A read-write lock identified by its name. Cheap to clone; the value itself holds nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::Seawall;
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let prices = seawall.rw_lock("prices");
/// let one = prices.read().try_acquire().await?.acquired().expect("no writer holds it");
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
    /// Creates a lock that many can hold for reading, or one for writing.
    #[must_use]
    pub fn new(handle: &Handle, name: impl KeyPart) -> Self {
        let lock = |kind| Lock::of_kind(handle, "rw", &name, kind);
        RwLock { read: lock(Kind::Read), write: lock(Kind::Write) }
    }

    /// Returns the lock for reading, ready for options and acquisition.
    #[must_use]
    pub fn read(&self) -> Lock {
        self.read.clone()
    }

    /// Returns the lock for writing, ready for options and acquisition.
    #[must_use]
    pub fn write(&self) -> Lock {
        self.write.clone()
    }
}
