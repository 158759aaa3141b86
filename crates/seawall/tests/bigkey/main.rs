//! Big keys: values in parts, on every backend and under faults.

mod content;
mod limits;
mod relay;
mod setup;
mod torn;
mod values;
