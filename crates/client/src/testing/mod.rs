//! Support for testing code that uses the toolkit (feature `testing`): a manual clock and injected
//! faults.

mod faults;
#[cfg(feature = "testing")]
mod test_server;

#[cfg(feature = "testing")]
pub use faults::FaultControl;
pub(crate) use faults::Faults;
#[cfg(feature = "testing")]
pub use test_server::TestServer;
