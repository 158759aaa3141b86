//! Checks what the cache alone costs a dependent crate: its lints, and the number of packages that
//! come with it.

use crate::outcome::{Failure, Outcome};
use crate::shell::{cargo, step};

/// Selects the cache and nothing else.
const CACHE_ALONE: [&str; 5] = ["-p", "seawall", "--no-default-features", "--features", "cache"];
/// Maximum packages that the cache alone may pull in, itself included.
const MAX_PACKAGES: usize = 100;

/// Lints the cache alone and counts its packages.
pub(crate) fn check() -> Outcome {
    let mut clippy = cargo(&["clippy", "--quiet"]);
    step("clippy, cache alone", clippy.args(CACHE_ALONE).args(["--", "-D", "warnings"]))?;
    let packages = packages()?;
    if packages > MAX_PACKAGES {
        return Err(Failure::new(format!(
            "the cache alone brings {packages} packages, {MAX_PACKAGES} are allowed: put what it does not \
             need behind a feature"
        )));
    }
    Ok(())
}

fn packages() -> Outcome<usize> {
    let mut tree = cargo(&["tree", "--edges", "normal", "--prefix", "none", "--no-dedupe"]);
    let output = tree.args(CACHE_ALONE).output()?;
    if !output.status.success() {
        return Err(Failure::new(format!(
            "cargo tree failed: {}",
            String::from_utf8_lossy(&output.stderr)
        )));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().collect::<std::collections::BTreeSet<_>>().len())
}
