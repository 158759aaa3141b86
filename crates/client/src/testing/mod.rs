//! For tests of code that uses the toolkit (feature `testing`): time in your hands, faults on demand.

mod faults;
#[cfg(feature = "testing")]
mod stage;

#[cfg(feature = "testing")]
pub use faults::FaultControl;
pub(crate) use faults::Faults;
#[cfg(feature = "testing")]
pub use stage::Stage;
