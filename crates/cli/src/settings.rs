//! Merges settings: defaults of the program, then the file, then the command line.
//!
//! Nothing is guessed and nothing is ignored. A setting that is unknown, has an invalid value, is
//! given twice, or requests something that this program does not support ends the program with a
//! sentence that names it.

use std::{
    collections::HashMap,
    fs,
    net::{IpAddr, SocketAddr},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use seawall_engine::Settings;

use crate::{args::EngineArgs, config_file};

/// Settings that Redis allows several times.
const REPEATED: [&str; 2] = ["save", "client-output-buffer-limit"];

/// Returns `true` if a value requests what the setting is refused for.
type Asks = fn(&str) -> bool;

/// Values that request unsupported features, and what to do instead.
const REFUSED: [(&str, Asks, &str); 4] = [
    ("daemonize", |v| v.eq_ignore_ascii_case("yes"), "leave it out and use your service manager"),
    ("cluster-enabled", |v| v.eq_ignore_ascii_case("yes"), "one engine serves one machine"),
    ("replicaof", |v| !v.is_empty(), "there is no replication; use Redis for that"),
    ("logfile", |v| !v.is_empty(), "leave it out and redirect stderr"),
];

/// Where and how to serve.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) settings: Settings,
    pub(crate) listen: Vec<SocketAddr>,
}

/// Merges all settings.
///
/// # Errors
/// A sentence that names the setting, its value and the allowed values.
pub(crate) fn plan(args: &EngineArgs) -> Result<Plan, String> {
    let mut settings = Settings::default();
    settings.dir = "./seawall-data".into();
    settings.appendonly = true;
    if args.requirepass.is_some() {
        return Err("--requirepass is not taken, because other users of this machine can read \
                    command lines; put the password into a file that only you can read and name it \
                    with --requirepass-file"
            .into());
    }
    if let Some(path) = &args.config {
        let read = fs::read_to_string(path);
        let text = read.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        apply_file(&mut settings, &text).map_err(|what| format!("{}, {what}", path.display()))?;
    }
    for (name, value) in args.settings() {
        apply(&mut settings, name, value).map_err(|what| format!("--{what}"))?;
    }
    if let Some(path) = &args.requirepass_file {
        settings.requirepass = password(path)?;
    }
    let listen = addresses(&settings)?;
    if listen.is_empty() && settings.unixsocket.is_empty() {
        return Err(
            "port is 0 and unixsocket is not set, so no client could connect; set one".into()
        );
    }
    Ok(Plan { settings, listen })
}

fn apply_file(settings: &mut Settings, text: &str) -> Result<(), String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for setting in config_file::parse(text)? {
        let config_file::Setting { line, name, value } = setting;
        if let Some(earlier) = seen.insert(name.clone(), line) {
            if !REPEATED.contains(&name.as_str()) {
                return Err(format!("line {line}: {name} was set in line {earlier} already"));
            }
            if name == "save" && !value.is_empty() {
                let so_far = settings.save.clone();
                let joined = format!("{so_far} {value}");
                apply(settings, &name, joined.trim())
                    .map_err(|what| format!("line {line}: {what}"))?;
                continue;
            }
        }
        apply(settings, &name, &value).map_err(|what| format!("line {line}: {what}"))?;
    }
    Ok(())
}

fn apply(settings: &mut Settings, name: &str, value: &str) -> Result<(), String> {
    if let Some((_, _, advice)) =
        REFUSED.iter().find(|(refused, asks, _)| *refused == name && asks(value))
    {
        return Err(format!("{name} cannot be '{value}' here; {advice}"));
    }
    if settings.get(name).is_none() {
        return Err(format!("{name} is not a known setting (its value is '{value}')"));
    }
    settings.set(name, value).map_err(|what| format!("{name} cannot be '{value}': {what}"))
}

fn password(path: &Path) -> Result<String, String> {
    let fail = |what: String| format!("--requirepass-file {}: {what}", path.display());
    let metadata = fs::metadata(path).map_err(|error| fail(error.to_string()))?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(fail("other users can read it; run `chmod 600` on it first".into()));
    }
    let text = fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => Err(fail("its first line must be the password, and it is empty".into())),
    }
}

/// Returns the TCP addresses of `bind` and `port`; `*` stands for all addresses of this machine.
fn addresses(settings: &Settings) -> Result<Vec<SocketAddr>, String> {
    let port = u16::try_from(settings.port).unwrap_or(0);
    if port == 0 {
        return Ok(Vec::new());
    }
    let mut addresses = Vec::new();
    for word in settings.bind.split([' ', ',']).filter(|word| !word.is_empty()) {
        // Redis: a leading minus makes an address optional when this machine does not have it.
        let name = word.strip_prefix('-').unwrap_or(word);
        let ip: IpAddr = match name {
            "*" => IpAddr::from([0, 0, 0, 0]),
            "::*" => IpAddr::from([0u16; 8]),
            "localhost" => IpAddr::from([127, 0, 0, 1]),
            _ => name.parse().map_err(|_| {
                format!("bind cannot be '{word}': it takes addresses such as 127.0.0.1 or ::1")
            })?,
        };
        addresses.push(SocketAddr::new(ip, port));
    }
    if addresses.is_empty() {
        return Err("bind is empty, but a port is set; name an address or set port to 0".into());
    }
    if let Some(open) = addresses.iter().find(|addr| !addr.ip().is_loopback())
        && settings.requirepass.is_empty()
    {
        return Err(format!(
            "bind {} would let other machines read and change the data without a password; give \
             one with --requirepass-file, or bind 127.0.0.1",
            open.ip()
        ));
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut EngineArgs)) -> Result<Plan, String> {
        let mut args = EngineArgs::default();
        change(&mut args);
        plan(&args)
    }

    fn file(text: &str) -> Result<Settings, String> {
        let mut settings = Settings::default();
        apply_file(&mut settings, text).map(|()| settings)
    }

    #[test]
    fn the_default_is_safe_and_durable() {
        let plan = with(|_| ()).expect("defaults are valid");
        assert_eq!(plan.listen, ["127.0.0.1:6379".parse().expect("an address")]);
    }

    #[test]
    fn mistakes_name_setting_value_and_remedy() {
        let mistake = with(|args| args.port = Some("99999".into())).unwrap_err();
        assert!(mistake.starts_with("--port cannot be '99999': "), "{mistake}");
        let mistake = with(|args| args.appendfsync = Some("never".into())).unwrap_err();
        assert!(mistake.contains("always, everysec, no"), "{mistake}");
        let mistake = with(|args| args.bind = Some("0.0.0.0".into())).unwrap_err();
        assert!(mistake.contains("--requirepass-file"), "{mistake}");
        let mistake = with(|args| args.requirepass = Some("x".into())).unwrap_err();
        assert!(mistake.contains("--requirepass-file") && !mistake.contains("'x'"), "{mistake}");
        let mistake = with(|args| args.port = Some("0".into())).unwrap_err();
        assert!(mistake.contains("no client could connect"), "{mistake}");
    }

    #[test]
    fn files_may_not_contradict_themselves() {
        assert_eq!(file("port 1\nport 2").unwrap_err(), "line 2: port was set in line 1 already");
        assert_eq!(
            file("no-such 1").unwrap_err(),
            "line 1: no-such is not a known setting (its value is '1')"
        );
        assert!(file("daemonize yes").unwrap_err().contains("service manager"));
        let settings = file("save 900 1\nsave 300 10").expect("save may repeat");
        assert_eq!(settings.save, "900 1 300 10");
    }
}
