//! Checks what a part of the toolkit costs a dependent crate, and what it says of the rest: the lints of
//! each feature alone, the number of packages that come with the cache, and the refusal of URLs whose
//! feature is off.

use std::fs;

use crate::outcome::{Failure, Outcome};
use crate::pages::{Program, run_programs};
use crate::shell::{cargo, root, step};

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

/// Runs a program that has the cache alone and tries URLs that need another feature.
pub(crate) fn check_refusals() -> Outcome {
    let program = Program {
        name: "without-features".to_owned(),
        dependencies: "[dependencies]\n\
            seawall = { version = \"0.1\", default-features = false, features = [\"cache\"] }\n\
            tokio = { version = \"1\", features = [\"macros\", \"rt\"] }\n"
            .to_owned(),
        text: include_str!("../programs/without_features.rs").to_owned(),
    };
    run_programs("program", &[program])
}

/// Lints the toolkit with each of its features alone, with none and with all. Returns how many builds
/// that are.
pub(crate) fn check_each_feature() -> Outcome<usize> {
    let manifest = fs::read_to_string(root().join("crates/seawall/Cargo.toml"))?;
    let mut builds = vec![vec!["--no-default-features"], vec!["--all-features"]];
    let names = features(&manifest);
    builds.extend(names.iter().map(|name| vec!["--no-default-features", "--features", name]));
    for build in &builds {
        let mut clippy = cargo(&["clippy", "--quiet", "-p", "seawall"]);
        step(
            &format!("clippy, {}", build.join(" ")),
            clippy.args(build).args(["--", "-D", "warnings"]),
        )?;
    }
    Ok(builds.len())
}

/// Returns the names of a manifest's features.
fn features(manifest: &str) -> Vec<&str> {
    let section = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
    let lines =
        section.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| Some(line.split_once(" = ")?.0)).collect()
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

#[cfg(test)]
mod tests {
    use super::features;

    #[test]
    fn features_are_read_from_their_section() {
        let text = "[package]\nname = \"x\"\n\n[features]\n# One.\na = []\nb-c = [\"a\"]\n\n[dependencies]\nd = 1\n";
        assert_eq!(features(text), ["a", "b-c"]);
    }
}
