//! Small typed structures for a community, each over one key template.
//!
//! | | | in Redis |
//! | --- | --- | --- |
//! | [`Likes`] | the members that like an object, and the first ones | sorted set, member → ms |
//! | [`Leaderboard`] | scores, ranks, pages around a member, seasons | sorted sets and a hash |
//! | [`Follows`] | follow relations, and what two users have in common | set, rebuilt from a source |
//! | [`Inbox`] | a feed that can be scrolled while it grows | sorted set, post → ms |
//! | [`Timelines`] | members by time, a copy of database rows | sorted set, rebuilt from a source |
//! | [`Places`] | places near a point | geo set, rebuilt from a source |
//! | [`SignIns`] | a calendar of days, and streaks | one bitmap per month |
//! | [`Visits`] | page views and distinct visitors | counter and HyperLogLog per day |
//! | [`OrderIndex`] | the newest orders of a user, older ones from the source | sorted set, order → ms·1000 |
//!
//! A handle is created once for a template (`seawall.likes::<u64>("note")`) and returns a view of
//! one subject (`likes.of(&42)?`): one key, or a few that share its slot. Everything that must be
//! atomic is one script in that slot. Operations over several subjects are split into bounded
//! pieces and work on a Cluster.
//!
//! Invariants: no command of this crate has more than [`SLICE`] members. Times are the server's.
//! Operations that are safe to retry after a lost reply say so. A structure that has a source never
//! treats an absent key as an empty collection (`rebuild`).

pub mod bucketed;
mod by_time;
mod copies;
mod cursor;
mod day;
mod follow;
mod follow_meet;
mod inbox;
mod inbox_box;
mod leaderboard;
mod likes;
mod merge;
mod order_index;
mod order_page;
mod places;
mod places_source;
mod rebuild;
mod sign_follow;
mod sign_in;
mod template;
mod timeline;
mod visits;

pub use cursor::{Cursor, Scroll};
pub use day::{Day, Month};
pub use follow::{Follow, FollowBuilder, Follows, FollowsOf, Unfollow};
pub use inbox::{FanOut, Inbox, Post};
pub use inbox_box::{InboxOf, Page, ScrollPage};
pub use leaderboard::{Leaderboard, MAX_SCORE, Season, Standing};
pub use likes::{Change, Likes, LikesOf, Toggle};
pub use merge::merge;
pub use order_index::{Add, Audit, Order, OrderIndex, OrderIndexBuilder, OrdersOf};
pub use order_page::OrderPage;
pub use places::{Nearby, Place, Places, PlacesIn, Point, Resolved};
pub use places_source::PlacesAudit;
pub use sign_in::{Calendar, Sign, SignIns, SignInsOf};
pub use timeline::{Newest, TimelineBuilder, TimelineOf, Timelines};
pub use visits::{Visits, VisitsOf};

/// Most members in one command.
pub const SLICE: usize = 1000;
