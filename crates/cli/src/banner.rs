//! The startup banner: where the engine listens, how to connect, what it persists.

use seawall_engine::Settings;
use seawall_server::Handle;

/// Returns the banner of a running engine.
pub(crate) fn banner(handle: &Handle, settings: &Settings) -> String {
    let mut lines = vec![format!("Seawall {} is ready.", env!("CARGO_PKG_VERSION"))];
    let password = if settings.requirepass.is_empty() { "" } else { " --askpass" };
    for addr in handle.addrs() {
        lines.push(format!("  Listening   {addr}"));
    }
    if let Some(path) = handle.unix_path() {
        lines.push(format!("  Listening   {}", path.display()));
    }
    let target = handle.addr().map_or_else(
        || handle.unix_path().map_or_else(String::new, |path| format!("-s {}", path.display())),
        |addr| format!("-h {} -p {}", addr.ip(), addr.port()),
    );
    lines.push(format!("  Talk to it  redis-cli {target}{password}   (any Redis client will do)"));
    lines.push(if settings.appendonly {
        let sync = settings.get("appendfsync").unwrap_or_default();
        let means = match sync.as_str() {
            "always" => "a write is on disk before it is answered",
            "no" => "the operating system decides when writes reach the disk",
            _ => "a power cut loses at most the last second",
        };
        format!("  Data        {} (appendfsync {sync}: {means})", settings.dir)
    } else {
        "  Data        in memory only; gone when the program ends (appendonly no)".into()
    });
    lines.push(match settings.maxmemory {
        0 => "  Memory      no bound (--maxmemory sets one)".into(),
        bytes => {
            let policy = settings.get("maxmemory-policy").unwrap_or_default();
            format!("  Memory      at most {bytes} bytes, then {policy}")
        }
    });
    lines.push("  End it with Ctrl-C.".into());
    lines.join("\n")
}
