//! Social structures, on every backend and under faults.

mod board;
mod bugs;
mod days;
mod feed;
mod feed_model;
mod follow;
mod likes;
mod lost_replies;
mod orders;
mod places;
#[path = "../support/setup.rs"]
mod setup;
mod timeline;
