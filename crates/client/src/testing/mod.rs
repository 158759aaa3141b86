//! Support for testing code that uses the toolkit (feature `testing`): a manual clock and injected
//! faults.

mod faults;
#[cfg(feature = "testing")]
mod stage;

#[cfg(feature = "testing")]
pub use faults::FaultControl;
pub(crate) use faults::Faults;
#[cfg(feature = "testing")]
pub use stage::Stage;
