//! The kit itself: servers that start and end, faults that happen.

mod backend;
mod cluster;
mod differential;
mod mariadb;
mod nginx;
mod proxy;
mod sentinel;
mod servers;
