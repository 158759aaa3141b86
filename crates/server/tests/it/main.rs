//! The server from outside, in one executable: linking costs more than most of these tests.

mod client_memory;
mod debug_and_saves;
mod eviction;
mod full_disk;
mod give_back;
mod host;
mod http;
mod large_keys;
mod large_values;
mod living;
mod local;
mod network;
mod network_framing;
mod network_limits;
mod network_scripts;
mod patterns;
mod recovery;
mod recovery_engine;
mod redis_server;
mod stalls;
mod support;
