//! A community-commerce service built on the toolkit: login by code, shops read through the cache,
//! flash sales that sell exactly the available stock.
//!
//! Each feature is a folder: `mod.rs` holds its rules, `http.rs` its routes, `store.rs` its
//! queries, `jobs.rs` its background jobs. Only `http` uses axum, only `store` (and [`db`]) uses
//! SQL, and [`keys`] names every key in Redis.

pub mod accounts;
mod app;
pub mod big_keys;
mod breaks;
pub mod cart;
mod check;
pub mod checkins;
pub mod config;
pub mod db;
mod debts;
mod demo;
pub mod error;
pub mod feed;
pub mod follows;
pub mod home;
pub mod http;
pub mod inventory;
mod jobs;
pub mod keys;
pub mod metrics;
pub mod notes;
pub mod orders;
pub mod payments;
mod pictures;
pub mod sales;
mod seed;
pub mod shops;
mod stale;
pub mod stats;
pub mod submissions;
pub mod uploads;
pub mod vouchers;
pub mod zone;

pub use app::{App, Parts};
pub use config::Config;
pub use error::{Error, Result};
