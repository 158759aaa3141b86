//! `seawall serve`, the real binary over real HTTP.

mod api;
mod client;
mod kills;
mod sale;
mod settings;
mod slow;
