//! `seawall serve`, the real binary over real HTTP.

mod api;
mod client;
mod fleet;
mod goods_kills;
mod kills;
mod old_folders;
mod outage;
mod sale;
mod settings;
mod slow;
