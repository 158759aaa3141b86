//! `cargo xtask docs`: writes the pages that are generated from code, and with `--screens` the
//! screenshots of the market's page.

use clap::Args;

use crate::mutants;
use crate::outcome::Outcome;
use crate::phrases;
use crate::shell::{cargo, step};

/// If set, the test that compares such a page with the code also writes it.
const WRITE: &str = "SEAWALL_WRITE_DOCS";
/// Where the browser tests put their screenshots.
const SHOTS: &str = "SEAWALL_SHOTS";

/// Options of `cargo xtask docs`.
#[derive(Args)]
pub(crate) struct Options {
    /// Also retake the screenshots in docs/screens; `cargo xtask setup` installs the browser
    #[arg(long)]
    screens: bool,
}

/// Writes docs/compatibility.md from the command table, docs/mutants.md from the patches, and
/// docs/screens from the page.
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
