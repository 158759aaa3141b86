//! Finds the names of metrics in sources and in the documentation, for tests that compare both with the
//! descriptions.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Macros that emit a metric.
const MACROS: [&str; 3] = ["counter!(", "gauge!(", "histogram!("];
/// Beginning and end of a table of descriptions.
const TABLE: (&str, &str) = ("const METRICS: &[Metric] = &[", "\n];");

/// Returns the names of the metrics that the sources of a crate (a folder of `crates/`) emit.
///
/// Every literal that looks like a name counts, in files that emit metrics: names also go through
/// variables. Tables of descriptions do not count.
///
/// # Panics
/// If the sources cannot be read.
#[must_use]
pub fn metric_names(package: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders = vec![root().join("crates").join(package).join("src")];
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(&folder).expect("sources") {
            let path = file.expect("a file").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                names.extend(names_in(&fs::read_to_string(&path).expect("text")));
            }
        }
    }
    names
}

fn names_in(source: &str) -> Vec<String> {
    if !MACROS.iter().any(|emit| source.contains(emit)) {
        return Vec::new();
    }
    let rest = match source.split_once(TABLE.0) {
        Some((before, after)) => {
            let after = after.split_once(TABLE.1).map_or("", |(_, after)| after);
            format!("{before}{after}")
        }
        None => source.to_owned(),
    };
    let is_name = |text: &&str| {
        (text.starts_with("seawall_") || text.starts_with("market_"))
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    rest.split('"').filter(is_name).map(str::to_owned).collect()
}

/// Returns the rows of the table of metrics under a heading of `docs/observability.md`, each as its
/// cells: name, type, unit, labels, meaning.
///
/// # Panics
/// If the page cannot be read, or has no such heading.
#[must_use]
pub fn documented_metrics(heading: &str) -> Vec<Vec<String>> {
    let page = fs::read_to_string(root().join("docs/observability.md")).expect("the page");
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).expect("the heading");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_outside_the_table() {
        let source = concat!(
            "pub const METRICS: &[Metric] = &[\n    Metric::counter(\"seawall_described\", &[]),\n];\n",
            "let counter = |name| metrics::counter!(name);\ncounter(\"seawall_used_total\");\n"
        );
        assert_eq!(names_in(source), ["seawall_used_total"]);
        assert!(names_in("let crate_name = \"seawall_market\";").is_empty(), "no metric");
    }
}
