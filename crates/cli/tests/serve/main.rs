//! `seawall serve`, the real binary over real HTTP.

mod api;
mod client;
mod fleet;
mod kills;
mod outage;
mod sale;
mod settings;
mod slow;
