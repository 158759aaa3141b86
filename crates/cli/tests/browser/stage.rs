//! A market of one's own and the Node process that plays a scenario on its page.
//!
//! Whatever a scenario prints is shown when it fails, together with where it left its last picture of
//! the page. A line that begins with `@` is a request that only the test can fulfil; it is answered
//! once that is done.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use seawall_testkit::MarketProcess;
use tempfile::TempDir;

/// Set to `docs`, pictures of the screens go to docs/screens instead of target/browser/shots.
const SHOTS: &str = "SEAWALL_SHOTS";

/// A running market.
pub(crate) struct Stage {
    served: MarketProcess,
    _folder: TempDir,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn shots() -> PathBuf {
    let is_docs = std::env::var_os(SHOTS).is_some_and(|value| value == "docs");
    if is_docs { root().join("docs/screens") } else { target().join("browser/shots") }
}

impl Stage {
    /// Starts one with the demo town; `args` stand beside the usual ones.
    pub(crate) fn start(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = MarketProcess::command(env!("CARGO_BIN_EXE_seawall"), folder.path());
        let served = MarketProcess::start(command.args(["--sms", "echo"]).args(args));
        Self { served: served.expect("the binary starts"), _folder: folder }
    }

    /// Plays a scenario to its good end; `fulfil` does what it asks for.
    pub(crate) fn play(self, scenario: &str, args: &[&str], mut fulfil: impl FnMut(&str)) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/scenarios");
        let errors = tempfile::NamedTempFile::new().expect("a file");
        let mut node = Command::new("node")
            .arg(folder.join(scenario).with_extension("mjs"))
            .args(args)
            .env("PAGE", format!("http://{}", self.served.address()))
            .env("CLIENTS", target().join("clients/node"))
            .env("OUT", target().join("browser"))
            .env("SHOTS", shots())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.reopen().expect("it can be written"))
            .spawn()
            .expect("`cargo xtask setup` installs node");
        let mut answers = node.stdin.take().expect("it is piped");
        let mut said = String::new();
        for line in BufReader::new(node.stdout.take().expect("it is piped")).lines() {
            let line = line.expect("text");
            if let Some(request) = line.strip_prefix('@') {
                fulfil(request);
                writeln!(answers, "done").expect("it waits for this");
            }
            said.push_str(&line);
            said.push('\n');
        }
        let status = node.wait().expect("it ends");
        let errors = std::fs::read_to_string(errors.path()).unwrap_or_default();
        assert!(status.success(), "{scenario} {args:?}: {status}\n{said}{errors}");
        assert_eq!(self.served.terminate().expect("it ends"), Some(0));
    }
}
