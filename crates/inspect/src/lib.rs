//! Inspects the contents of a Redis: big keys, hot keys, and how evenly both are spread over slots
//! and nodes.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
//! use seawall::Seawall;
//!
//! let seawall = Seawall::connect("embedded:").await?;
//! let surveyed = seawall.survey().rate(5_000).run(|_| {}, std::future::pending()).await?;
//! assert_eq!(surveyed.report.totals.keys, 0);
//! # seawall.shutdown().await; Ok(()) }
//! ```
//!
//! A survey works on the keys of any program; it does not need the rest of the toolkit. It asks
//! replicas where there are any, keeps to a rate, pauses while the server is slow, and takes
//! bounded memory for any number of keys.
//!
//! A [`Sweep`] deletes keys at a limited rate. Deliberately absent: any other change of data.

mod big;
mod end;
mod finding;
mod glob;
mod hot;
mod kind;
mod listen;
mod monitor;
mod pace;
mod place;
mod rdb;
mod report;
mod report_settings;
mod scan;
mod seen;
mod skew;
mod skew_counts;
mod skew_report;
mod sweep;
mod threshold;
mod top;
mod tracker;

pub use big::{Survey, Surveyed};
pub use end::End;
pub use finding::{Finding, key_of_text, key_text};
pub use hot::{HotFound, HotKey, HotReport, HotSurvey};
pub use kind::Kind;
pub use listen::{Listen, MAX_LINES, MAX_LISTEN};
pub use place::{Role, Source};
pub use rdb::{NEWEST_REDIS, NEWEST_VALKEY, RdbEnd, RdbError, RdbProgress, RdbSurvey};
pub use report::{Asked, IDLE_DAYS, Report, Totals};
pub use report_settings::MAX_TOP;
pub use scan::Progress;
pub use skew::SkewSurvey;
pub use skew_report::{NodeShare, Ratio, SkewReport, SlotShare};
pub use sweep::{Sweep, Swept, unlink_keys};
pub use threshold::{Measure, Severity, Thresholds, Tiers};
