//! Runs programs as steps: a spinner while they run, one line when they are done, their whole
//! output in a file, and its end on the screen if they fail.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::outcome::{Context, Failure, Outcome};

/// Lines of output shown for a failed step.
const SHOWN_LINES: usize = 80;
/// How often a long step shows its last line if there is no terminal for a spinner.
const SIGN_OF_LIFE: Duration = Duration::from_secs(60);

/// Returns the project's root directory.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// Returns the directory of builds, logs and results.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns a `cargo` command in the root directory.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(args);
    // Variables that cargo set for this program: if they were passed on, build scripts that look at
    // their environment would run again, and everything that depends on them would be built twice.
    let told = ["CARGO_MANIFEST_", "CARGO_PKG_"];
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| told.iter().any(|prefix| name.starts_with(prefix))) {
            command.env_remove(name);
        }
    }
    command
}

/// Builds the product's binary in release mode and returns its path.
pub(crate) fn release_binary() -> Outcome<PathBuf> {
    step("build seawall (release)", &mut cargo(&["build", "--release", "-p", "seawall-cli"]))?;
    Ok(target().join("release").join("seawall"))
}

/// Builds a program as it is measured and packaged: with the profile `dist`, which takes longer.
pub(crate) fn dist_binary(package: &str, name: &str) -> Outcome<PathBuf> {
    let args = ["build", "--profile", "dist", "-p", package];
    step(&format!("build {name} (dist)"), &mut cargo(&args))?;
    Ok(target().join("dist").join(name))
}

/// Returns `true` if a program is on the search path, or where Debian puts servers.
pub(crate) fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.any(|folder| folder.join(program).is_file())
}

/// A spinner with a text; silent if the output is not a terminal.
pub(crate) fn spinner(text: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {prefix} [{elapsed}] {wide_msg}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_prefix(text.to_owned());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// A progress bar over `total` pieces of work.
pub(crate) fn bar(text: &str, total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    let template = "{prefix} [{elapsed}] {bar:30} {human_pos}/{human_len} {wide_msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_prefix(text.to_owned());
    bar
}

/// Runs `command` as the step `name` and returns its output.
pub(crate) fn step(name: &str, command: &mut Command) -> Outcome<Vec<String>> {
    let started = Instant::now();
    let (ok, lines) = run_logged(name, command)?;
    let seconds = started.elapsed().as_secs_f64();
    if ok {
        println!("ok    {name} ({seconds:.1} s)");
        return Ok(lines);
    }
    println!("FAIL  {name} ({seconds:.1} s)");
    for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
        println!("      {line}");
    }
    let log = log_path(name);
    Err(Failure::new(format!(
        "{name} failed; everything it printed is in {}\n  to repeat this step alone: {}",
        log.display(),
        shown(command)
    )))
}

/// Runs `command` and follows its output. Returns whether it succeeded, and every line.
pub(crate) fn run_logged(name: &str, command: &mut Command) -> Outcome<(bool, Vec<String>)> {
    let log = log_path(name);
    fs::create_dir_all(log.parent().unwrap_or(&log))?;
    let mut file = File::create(&log)?;
    let (reader, writer) = std::io::pipe()?;
    let doing = format!("cannot run `{}`", shown(command));
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().context(doing)?;
    // The command still holds the writing ends; once they are released, the pipe ends with the
    // child.
    command.stdout(Stdio::null()).stderr(Stdio::null());

    let spinner = spinner(name);
    let (started, mut shown_at) = (Instant::now(), Instant::now());
    let mut lines = Vec::new();
    let mut reader = BufReader::new(reader);
    let mut raw = Vec::new();
    while reader.read_until(b'\n', &mut raw)? > 0 {
        let line = String::from_utf8_lossy(&raw).trim_end().to_owned();
        raw.clear();
        writeln!(file, "{line}")?;
        spinner.set_message(line.clone());
        if spinner.is_hidden() && shown_at.elapsed() >= SIGN_OF_LIFE {
            shown_at = Instant::now();
            println!("      {name}, {:.0} s: {}", started.elapsed().as_secs_f64(), line.trim());
        }
        lines.push(line);
    }
    let status = child.wait()?;
    spinner.finish_and_clear();
    Ok((status.success(), lines))
}

fn log_path(name: &str) -> PathBuf {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    target().join("xtask").join(format!("{plain}.log"))
}

fn shown(command: &Command) -> String {
    let mut words = VecDeque::from([command.get_program().to_string_lossy().into_owned()]);
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    Vec::from(words).join(" ")
}
