//! `seawall serve`, the real binary over real HTTP.

mod client;
mod sale;
mod settings;
