//! Hosts the engine.
