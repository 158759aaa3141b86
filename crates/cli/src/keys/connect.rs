//! Determines which Redis to use, and connects to it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use seawall::Seawall;

use super::args::Target;
use crate::{Failure, terminal};

/// Scans may wait longer than a service would.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connects to the Redis named by the command line, the environment or the data directory.
pub(super) async fn connect(target: &Target) -> Result<Seawall, Failure> {
    connect_as(target, "").await
}

/// Like [`connect`], with the key prefix of a service's own handle.
pub(super) async fn connect_as(target: &Target, prefix: &str) -> Result<Seawall, Failure> {
    let url = url(target)?;
    let mut builder = Seawall::builder(&url).response_timeout(PATIENCE).prefix(prefix);
    if let Some(path) = &target.redis_password_file {
        builder = builder.password(password(path)?);
    }
    builder.connect().await.map_err(|error| match error {
        seawall::Error::Invalid(sentence) => Failure::Usage(format!("--redis: {sentence}")),
        other => Failure::Work(format!("--redis: {other}")),
    })
}

fn url(target: &Target) -> Result<String, Failure> {
    if let Some(url) = &target.redis {
        let login =
            url.split_once("://").and_then(|(_, rest)| rest.split('/').next()?.rsplit_once('@'));
        if login.is_some_and(|(login, _)| login.contains(':')) {
            return Err(Failure::Usage(
                "--redis carries a password, and other users of this machine can read command lines; \
                 put the password into SEAWALL_REDIS_PASSWORD, or into a file named by \
                 --redis-password-file"
                    .into(),
            ));
        }
        return known(url);
    }
    if let Ok(url) = std::env::var("SEAWALL_REDIS") {
        return known(&url);
    }
    let data = target.data.clone().or_else(|| std::env::var_os("SEAWALL_DATA").map(PathBuf::from));
    let socket = data.unwrap_or_else(|| "./seawall-data".into()).join("engine.sock");
    if !socket.exists() {
        return Err(Failure::Usage(format!(
            "which Redis? Name one with --redis, such as redis://127.0.0.1:6379; no `seawall serve` \
             with an embedded engine listens at {}",
            socket.display()
        )));
    }
    terminal::remark(&format!("no --redis: asking the embedded engine at {}", socket.display()));
    Ok(format!("unix:{}", socket.display()))
}

/// Refuses an embedded engine: it would be empty, or locked by the process that serves.
fn known(url: &str) -> Result<String, Failure> {
    if url.starts_with("embedded:") {
        return Err(Failure::Usage(
            "embedded: is an engine inside its own process; name its socket, as in \
             unix:./seawall-data/engine.sock, or leave --redis out and name the folder with --data"
                .into(),
        ));
    }
    Ok(url.to_owned())
}

fn password(path: &Path) -> Result<String, Failure> {
    let fail =
        |what: &str| Failure::Usage(format!("--redis-password-file {}: {what}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| fail(&error.to_string()))?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => Err(fail("its first line must be the password, and it is empty")),
    }
}
