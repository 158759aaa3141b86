//! What is in a Redis: big keys, hot keys, and how evenly both lie on slots and nodes.
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
//! A survey works on any keys, whoever wrote them; it needs nothing of the rest of this crate. It
//! asks replicas where there are any, keeps to a rate, pauses while the server is slow, and takes
//! bounded memory however many keys there are.
//!
//! A [`Sweep`] deletes what was found too much, as gently. Deliberately absent: changing anything else.

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
mod scan;
mod seen;
mod skew;
mod skew_counts;
mod skew_report;
mod sweep;
mod threshold;
mod top;
mod tracker;

pub use big::{MAX_TOP, Survey, Surveyed};
pub use end::End;
pub use finding::{Finding, key_of_text, key_text};
pub use hot::{HotFound, HotKey, HotReport, HotSurvey};
pub use kind::Kind;
pub use listen::{Listen, MAX_LINES, MAX_LISTEN};
pub use place::{Role, Source};
pub use rdb::{NEWEST_REDIS, NEWEST_VALKEY, RdbEnd, RdbError, RdbProgress, RdbSurvey};
pub use report::{Asked, IDLE_DAYS, Report, Totals};
pub use scan::Progress;
pub use skew::SkewSurvey;
pub use skew_report::{NodeShare, Ratio, SkewReport, SlotShare};
pub use sweep::{Sweep, Swept, unlink_keys};
pub use threshold::{Measure, Severity, Thresholds, Tiers};
