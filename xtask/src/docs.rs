//! `cargo xtask docs`: writes the pages that are made from code.

use crate::outcome::Outcome;
use crate::shell::{cargo, step};

/// The test that compares such a page with the code also writes it when this is set.
const WRITE: &str = "SEAWALL_WRITE_DOCS";

/// Writes docs/compatibility.md from the command table.
pub(crate) fn run() -> Outcome {
    let args = ["test", "--quiet", "--package", "seawall-engine", "--test", "compatibility"];
    step("docs/compatibility.md", cargo(&args).env(WRITE, "1")).map(drop)
}
