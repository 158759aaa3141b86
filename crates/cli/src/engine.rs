//! `seawall engine`: serves the engine until a signal or SHUTDOWN ends it.

use std::{
    hash::{BuildHasher, RandomState},
    path::PathBuf,
    thread,
};

use seawall_engine::Options;
use seawall_server::{Config, Level, Server, StartError, Stopper, aof::open_journal};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::{
    Failure,
    args::EngineArgs,
    banner::banner,
    data, open_files,
    settings::{Plan, plan},
    terminal,
};

/// Serves until a signal or SHUTDOWN ends the server.
pub(crate) fn run(args: &EngineArgs) -> Result<(), Failure> {
    if let Some(task) = data::Task::of(args) {
        return task.run();
    }
    let Plan { mut settings, listen } = plan(args).map_err(Failure::Usage)?;
    let least = terminal::level(&settings.get("loglevel").unwrap_or_default());
    let notices = terminal::notices(least);
    let fit = open_files::raise(settings.maxclients.unsigned_abs(), &notices);
    settings.maxclients = i64::try_from(fit).unwrap_or(i64::MAX);
    // Signals are caught before the first write can happen.
    let signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Failure::Work(format!("cannot catch signals: {error}")))?;
    let mut config = Config::default();
    config.listen = listen;
    config.unix_socket =
        (!settings.unixsocket.is_empty()).then(|| PathBuf::from(&settings.unixsocket));
    // The seed is not known outside this process, so clients cannot choose keys that collide.
    let seed = RandomState::new().hash_one(std::process::id());
    config.engine = Options { settings: settings.clone(), seed, ..Options::default() };
    config.notices = notices.clone();
    config.journal = Some(open_journal(data::place(&settings.dir)));
    let handle = Server::start(config).map_err(|error| Failure::Work(advise(&error)))?;
    terminal::announce(&banner(&handle, &settings));
    let stopper = handle.stopper();
    let signal_notices = notices.clone();
    thread::spawn(move || end_on_signal(signals, &stopper, &signal_notices));
    handle.wait().map_err(|error| Failure::Work(error.to_string()))?;
    notices.tell(Level::Notice, format_args!("ended; all writes are as durable as promised"));
    Ok(())
}

/// The first signal shuts the server down cleanly, the second one at once.
fn end_on_signal(mut signals: Signals, stopper: &Stopper, notices: &seawall_server::Notices) {
    for (count, signal) in signals.forever().enumerate() {
        if count > 0 {
            std::process::exit(128 + signal);
        }
        notices.tell(Level::Notice, format_args!("ending by signal {signal}"));
        stopper.stop();
    }
}

fn advise(error: &StartError) -> String {
    match error {
        StartError::AddressTaken(addr) => format!(
            "port {} of {} is taken by another program; choose another with `seawall engine \
             --port N`",
            addr.port(),
            addr.ip()
        ),
        other => other.to_string(),
    }
}
