//! The binary of Seawall.
fn main() {}
