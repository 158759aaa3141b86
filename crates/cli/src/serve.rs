//! `seawall serve`: serves the market until a signal ends it.
//!
//! The first signal shuts it down cleanly: no new connections, running requests are finished,
//! waiting orders are written, the embedded engine writes its log. A second signal ends it at once.

use std::{
    ffi::OsString,
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use seawall::Seawall;
use seawall_market::{
    App, Parts,
    config::{Config, LogFormat, Sms, Sources},
    http::{self, serve::Bounds},
};
use seawall_server::Level;
use tokio::{
    net::TcpListener,
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
};
use tracing_subscriber::{
    Layer as _, filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::{Failure, args::ServeArgs, open_files, terminal};

/// Open files that a busy service may need: connections, the database, the log.
const OPEN_FILES: u64 = 10_000;

/// Serves until a signal ends it.
pub(crate) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let (config, oddities) = settings(args).map_err(Failure::Usage)?;
    log_to_stderr(config.log, config.log_format);
    http::metrics::install();
    for oddity in oddities {
        tracing::warn!("{oddity}");
    }
    open_files::raise(OPEN_FILES, &terminal::notices(Level::Warning));
    let runtime = Runtime::new().map_err(|error| work("cannot start threads", &error))?;
    runtime.block_on(serve(config))
}

/// Returns the settings and warnings about them.
fn settings(args: &ServeArgs) -> Result<(Config, Vec<String>), String> {
    let given = [("redis", &args.redis_password), ("database", &args.database_password)];
    if let Some((store, _)) = given.iter().find(|(_, password)| password.is_some()) {
        return Err(format!(
            "--{store}-password is not taken, because other users of this machine can read command \
             lines; put the password into SEAWALL_{}_PASSWORD, or into a file named by \
             --{store}-password-file",
            store.to_uppercase()
        ));
    }
    let mut sources = Sources::new();
    let named = std::env::var_os("SEAWALL_CONFIG").map(PathBuf::from);
    if let Some(path) = args.config.as_ref().or(named.as_ref()) {
        sources = sources.file(path)?;
    }
    sources = sources.environment(std::env::vars_os().filter_map(text));
    for (name, value) in args.settings() {
        sources = sources.flag(name, value)?;
    }
    Ok((sources.config()?, sources.oddities().to_vec()))
}

/// Returns an environment variable if it is valid text; other variables are not ours.
pub(crate) fn text((name, value): (OsString, OsString)) -> Option<(String, String)> {
    Some((name.into_string().ok()?, value.into_string().ok()?))
}

/// Logs our own lines at this level, and those of libraries when something is wrong.
fn log_to_stderr(level: tracing::Level, format: LogFormat) {
    let ours = ["seawall", "seawall_market", "seawall_server"].map(|target| (target, level));
    let targets = Targets::new().with_default(level.min(tracing::Level::WARN)).with_targets(ours);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    tracing_subscriber::registry().with(lines).with(targets).init();
}

async fn serve(config: Config) -> Result<(), Failure> {
    // Signals are caught before the first write can happen.
    let mut signals = Signals::catch().map_err(|error| work("cannot catch signals", &error))?;
    let listener =
        TcpListener::bind(config.listen).await.map_err(|error| advise(&config, &error))?;
    let folder = DirBuilder::new().recursive(true).mode(0o700).create(&config.data);
    folder.map_err(|error| work(&format!("cannot make {}", config.data.display()), &error))?;
    let embedded = config.redis.starts_with("embedded:");
    let socket = embedded.then(|| config.data.join("engine.sock"));
    let seawall = connect(&config, socket.as_deref()).await?;
    let address = listener.local_addr().map_err(|error| work("no address", &error))?;
    let banner = banner(&config, &address.to_string(), socket.as_deref());
    let app = match App::start(config, seawall.clone(), Parts::default()).await {
        Ok(app) => app,
        Err(error) => {
            seawall.shutdown().await;
            return Err(Failure::Work(format!("cannot start: {error}")));
        }
    };
    terminal::announce(&banner);
    let stop = async {
        let name = signals.next().await;
        tracing::info!("ending by {name}");
        app.begin_drain();
        tokio::spawn(async move {
            signals.next().await;
            std::process::exit(1);
        });
    };
    http::serve::serve(listener, app.router(), Bounds::default(), stop).await;
    app.shutdown().await;
    tracing::info!("ended; nothing is left in hand");
    Ok(())
}

async fn connect(config: &Config, socket: Option<&Path>) -> Result<Seawall, Failure> {
    let mut builder = Seawall::builder(&config.redis);
    if let Some(password) = &config.redis_password {
        builder = builder.password(password);
    }
    if let Some(path) = socket {
        builder = builder.engine_socket(path);
    }
    builder.connect().await.map_err(|error| match error {
        seawall::Error::Invalid(sentence) => Failure::Usage(format!("--redis: {sentence}")),
        other => Failure::Work(format!("--redis: {other}")),
    })
}

fn advise(config: &Config, error: &io::Error) -> Failure {
    let address = config.listen;
    match error.kind() {
        io::ErrorKind::AddrInUse => Failure::Work(format!(
            "port {} of {} is taken by another program; choose another with `seawall serve \
             --listen {}:PORT`",
            address.port(),
            address.ip(),
            address.ip()
        )),
        _ => work(&format!("cannot listen on {address}"), error),
    }
}

fn work(what: &str, error: &io::Error) -> Failure {
    Failure::Work(format!("{what}: {error}"))
}

/// Returns the startup banner: where to look, and what to try.
fn banner(config: &Config, address: &str, socket: Option<&Path>) -> String {
    let mut lines = vec![
        format!("Seawall {} serves the market.", env!("CARGO_PKG_VERSION")),
        format!("  Page        http://{address}/"),
        format!("  API         http://{address}/docs"),
    ];
    if config.demo && config.sms == Sms::Echo {
        lines.push("  Try it      log in as 10000000001; the page shows the code".into());
    }
    if config.sms == Sms::Echo && !config.listen.ip().is_loopback() {
        lines.push(
            "  Careful     other machines reach this, and everybody is shown every login code; use \
             --sms log"
                .into(),
        );
    }
    if config.sms == Sms::Log {
        lines.push("  Codes       are written to this log (--sms log)".into());
    }
    lines.push(match socket {
        Some(path) => format!("  Redis       inside; redis-cli -s {}", path.display()),
        None => "  Redis       as given by --redis".into(),
    });
    lines.push(format!("  Database    {}", config.database));
    lines.push("  End it with Ctrl-C.".into());
    lines.join("\n")
}

/// The signals that end the program.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
