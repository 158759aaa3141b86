//! The programs in README.md and docs/*.md, as readers use them.
//!
//! The crate `seawall-pages` compiles and runs every Rust block, with all features on. Here each *quick
//! start* is run as a reader would: pasted into a new package that has the page's `[dependencies]` and
//! nothing else, so a feature that the page forgets to name is an error. `seawall` is taken by path; all
//! versions are those of the project's lock file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::outcome::{Context, Failure, Outcome};
use crate::shell::{cargo, root, step, target};

/// The line of a page's dependencies that is replaced by a path.
const PUBLISHED: &str = "seawall = { version = \"0.1\"";

/// A fenced block of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Block {
    /// The first line of its text, from 1.
    line: usize,
    language: String,
    text: String,
}

/// A page: where it is, and its text.
struct Page {
    path: PathBuf,
    text: String,
}

/// A program and the dependencies of its package.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) dependencies: String,
    pub(crate) text: String,
}

/// Runs the quick start of every page that has one. Returns their number.
pub(crate) fn run_quick_starts() -> Outcome<usize> {
    let starts: Vec<_> = pages()?.iter().filter_map(Page::quick_start).collect();
    if starts.is_empty() {
        return Err(Failure::new("no page has a quick start: did their form change?"));
    }
    run_programs("quick start", &starts)?;
    Ok(starts.len())
}

/// Runs programs, each in a new package that has its dependencies and nothing else.
pub(crate) fn run_programs(kind: &str, programs: &[Program]) -> Outcome {
    let folder = target().join(format!("{}s", kind.replace(' ', "-")));
    let names: Vec<_> = programs.iter().map(|program| format!("{:?}", program.name)).collect();
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n[profile.dev]\ndebug = false\n",
        names.join(", ")
    );
    for program in programs {
        program.write(&folder)?;
    }
    write(&folder.join("Cargo.toml"), &manifest)?;
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    for program in programs {
        // One at a time: packages that are built together share their features.
        let mut run = cargo(&["run", "--quiet", "--package", &program.name]);
        run.arg("--manifest-path").arg(folder.join("Cargo.toml"));
        // Shared by programs of all kinds.
        run.arg("--target-dir").arg(target().join("quick-starts").join("target"));
        step(&format!("{kind} {}", program.name), &mut run)?;
    }
    Ok(())
}

impl Program {
    fn write(&self, folder: &Path) -> Outcome {
        let seawall = root().join("crates").join("seawall");
        let by_path = format!("seawall = {{ path = {:?}", seawall.display().to_string());
        if !self.dependencies.contains(PUBLISHED) {
            return Err(Failure::new(format!("{}: no line begins with {PUBLISHED}", self.name)));
        }
        let manifest = format!(
            "[package]\nname = {:?}\nedition = \"2024\"\n\n{}",
            self.name,
            self.dependencies.replace(PUBLISHED, &by_path)
        );
        let package = folder.join(&self.name);
        write(&package.join("Cargo.toml"), &manifest)?;
        write(&package.join("src").join("main.rs"), &self.text)
    }
}

impl Page {
    fn read(path: PathBuf) -> Outcome<Self> {
        let text = fs::read_to_string(&path).context(path.display())?;
        Ok(Self { path, text })
    }

    /// Returns the page's dependencies and the first program after them.
    fn quick_start(&self) -> Option<Program> {
        let blocks = blocks(&self.text);
        let at = blocks.iter().position(Block::is_dependencies)?;
        let program = blocks[at..].iter().find(|block| block.language == "rust")?;
        Some(Program {
            name: self.path.file_stem()?.to_str()?.to_lowercase(),
            dependencies: blocks[at].text.clone(),
            text: program.text.clone(),
        })
    }
}

impl Block {
    fn is_dependencies(&self) -> bool {
        self.language == "toml" && self.text.starts_with("[dependencies]\n")
    }
}

/// Returns the pages that readers copy from.
fn pages() -> Outcome<Vec<Page>> {
    let mut paths = vec![root().join("README.md"), root().join("UPGRADING.md")];
    for entry in fs::read_dir(root().join("docs"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "md") {
            paths.push(path);
        }
    }
    paths.sort();
    paths.into_iter().map(Page::read).collect()
}

/// Returns the fenced blocks of a page.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => {
                let language = language.trim().to_owned();
                open = Some(Block { line: index + 2, language, text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    blocks
}

/// Writes a file if its text changed: cargo builds again what is newer.
fn write(path: &Path, text: &str) -> Outcome {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, text)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::PathBuf;

    use super::{Block, Page, blocks, pages};
    use crate::shell::root;

    /// Pages of the README's table that describe no capability.
    const WITHOUT_QUICK_START: [&str; 1] = ["docs/sharing.md"];
    /// Lines that a quick start may have, with the lines above it: one screen.
    const SCREEN: usize = 60;

    fn place(page: &Page, block: &Block) -> String {
        format!("{}:{}", page.path.strip_prefix(root()).unwrap().display(), block.line)
    }

    #[test]
    fn blocks_are_found_with_their_language() {
        let text = "a\n```toml\n[dependencies]\n```\n- b\n\n  ```rust\n  fn main() {}\n  ```\n";
        let found = blocks(text);
        assert_eq!(found[0].text, "[dependencies]\n");
        assert_eq!((found[1].line, found[1].language.as_str()), (8, "rust"));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn every_rust_block_is_compiled() {
        let list = fs::read_to_string(root().join("crates/pages/src/lib.rs")).unwrap();
        for page in pages().unwrap() {
            let name = page.path.strip_prefix(root()).unwrap().display().to_string();
            for block in blocks(&page.text) {
                let place = place(&page, &block);
                // Without a language it would be compiled as Rust.
                assert!(
                    !block.language.is_empty(),
                    "{place}: say what it is: text, sh, toml, rust"
                );
                assert!(!block.language.contains("ignore"), "{place}: it has to compile");
                if block.language.starts_with("rust") {
                    assert!(list.contains(&format!("\"{name}\"")), "{place}: add the page there");
                    // GitHub shows what rustdoc hides.
                    let hidden = block.text.lines().any(|line| line.trim_start().starts_with("# "));
                    assert!(!hidden, "{place}: a line that begins with `# `");
                }
            }
        }
    }

    #[test]
    fn every_capability_begins_with_a_quick_start() {
        let readme = fs::read_to_string(root().join("README.md")).unwrap();
        let rows = readme.lines().filter_map(|line| line.strip_prefix("| ["));
        let linked = rows.filter_map(|row| row.split_once("](")?.1.split_once(")"));
        let linked: Vec<_> = linked.map(|(path, _)| path).filter(|p| p.ends_with(".md")).collect();
        assert!(linked.len() > 10, "{linked:?}");
        for path in linked.into_iter().filter(|path| !WITHOUT_QUICK_START.contains(path)) {
            let page = Page::read(root().join(path)).unwrap();
            let found = blocks(&page.text);
            let (dependencies, program) = (&found[0], &found[1]);
            assert!(dependencies.is_dependencies(), "{path}: dependencies come first");
            assert_eq!(program.language, "rust", "{path}: then the quick start");
            assert!(program.text.contains("#[tokio::main]\nasync fn main()"), "{path}: a program");
            let last = program.line + program.text.lines().count();
            assert!(last <= SCREEN, "{path}: the quick start ends in line {last}");
        }
    }

    #[test]
    fn every_named_example_exists() {
        let packages = packages();
        let mut named = 0;
        let contributing = Page::read(root().join("CONTRIBUTING.md")).unwrap();
        for page in pages().unwrap().into_iter().chain([contributing]) {
            let at = page.path.strip_prefix(root()).unwrap().display().to_string();
            for (package, features, name) in examples_named_in(&page.text) {
                let folder = packages.get(&package).unwrap_or_else(|| panic!("{at}: {package}"));
                let examples = folder.join("examples");
                let exists = examples.join(format!("{name}.rs")).is_file()
                    || examples.join(&name).join("main.rs").is_file();
                assert!(exists, "{at}: {package} has no example {name}");
                let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
                let needs = manifest.contains("required-features");
                assert!(!needs || features, "{at}: {name} needs --features");
                named += 1;
            }
        }
        assert!(named > 20, "only {named} were found: did their form change?");
    }

    /// Returns the folder of each package.
    fn packages() -> BTreeMap<String, PathBuf> {
        let entries = fs::read_dir(root().join("crates")).unwrap();
        let folders = entries.map(|entry| entry.unwrap().path());
        let named = folders.filter_map(|folder| {
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).ok()?;
            let name = manifest.lines().find_map(|line| line.strip_prefix("name = "))?;
            Some((name.trim_matches('"').to_owned(), folder))
        });
        named.collect()
    }

    /// Returns package, whether features are named, and example of every `cargo run … --example`, and
    /// of the names that follow one: `` `cargo run -p seawall --example cache`, `stampede` and `negative` ``.
    fn examples_named_in(text: &str) -> Vec<(String, bool, String)> {
        let mut found = Vec::new();
        for part in text.split("`cargo run ").skip(1) {
            let (command, rest) = part.split_once('`').unwrap();
            let words: Vec<_> = command.split_whitespace().collect();
            let after = |flag: &str| {
                let at = words.iter().position(|word| *word == flag)?;
                words.get(at + 1).map(|word| (*word).to_owned())
            };
            let Some(name) = after("--example") else { continue };
            let package = after("-p").expect("the root has no examples of its own");
            let features = after("--features").is_some();
            found.push((package.clone(), features, name));
            let mut pieces = rest.split('`');
            while let (Some(between), Some(name)) = (pieces.next(), pieces.next()) {
                if !matches!(between.trim(), "," | "and") {
                    break;
                }
                if !name.starts_with("cargo run") {
                    found.push((package.clone(), features, name.to_owned()));
                }
            }
        }
        found
    }

    #[test]
    fn names_after_an_example_are_examples() {
        let text = "`cargo run -p a --example b`, `c`\nand `d` show `e`. `cargo run --release`";
        let names: Vec<_> = examples_named_in(text).into_iter().map(|(.., name)| name).collect();
        assert_eq!(names, ["b", "c", "d"]);
    }
}
