//! `cargo xtask docs`: writes the pages that are made from code, and with `--screens` the pictures of
//! the market's page; then checks that the documentation is plain technical English.

use clap::Args;

use crate::mutants;
use crate::outcome::Outcome;
use crate::phrases;
use crate::shell::{cargo, step};

/// The test that compares such a page with the code also writes it when this is set.
const WRITE: &str = "SEAWALL_WRITE_DOCS";
/// Where the browser's tests put their pictures.
const SHOTS: &str = "SEAWALL_SHOTS";

/// What `cargo xtask docs` can be told.
#[derive(Args)]
pub(crate) struct Options {
    /// Also take the pictures in docs/screens anew; `cargo xtask setup` brings the browser
    #[arg(long)]
    screens: bool,
}

/// Writes docs/compatibility.md from the command table, docs/mutants.md from the patches, and docs/screens
/// from the page.
pub(crate) fn run(options: &Options) -> Outcome {
    let args = ["test", "--quiet", "--package", "seawall-engine", "--test", "it", "compatibility"];
    step("docs/compatibility.md", cargo(&args).env(WRITE, "1"))?;
    mutants::write_page()?;
    phrases::check()?;
    if options.screens {
        let args = ["test", "--quiet", "--package", "seawall-cli", "--test", "browser"];
        let mut tests = cargo(&args);
        // One browser at a time.
        tests.args(["every_screen", "--", "--test-threads", "1"]);
        step("docs/screens", tests.env(SHOTS, "docs"))?;
    }
    Ok(())
}
