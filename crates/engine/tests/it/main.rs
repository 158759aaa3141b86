//! The engine through its public interface, in one executable.

mod clients;
mod compatibility;
mod doctor;
mod hostile_scripts;
mod pause;
mod replay;
mod replay_bits;
mod tracking;
