//! Work on a data directory: the progress line of loading, and `--check`, `--export`, `--import`.
//!
//! Checking and exporting only read, so they work beside a running server; repairing and importing
//! take the directory's lock.

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use seawall_engine::{Core, Options, Peer, SessionId, Settings, Transport};
use seawall_server::aof::{
    Commands, DirectoryDisk, DirectoryLock, LOG_FILE, Place, SNAPSHOT_FILE, check, export,
    open_journal, repair,
};
use seawall_server::{Journal, Level, SystemClock};

use crate::{Failure, args::EngineArgs, terminal};

/// Loads that take longer show their progress.
const QUIET: Duration = Duration::from_millis(300);
/// Imported effects are written in batches of this size.
const BATCH_BYTES: usize = 1 << 20;

/// Returns the directory of a server, with a progress line for a long load.
pub(crate) fn place(directory: impl Into<PathBuf>) -> Place {
    let mut place = Place::new(directory);
    let started = Instant::now();
    let shown: Mutex<Option<ProgressBar>> = Mutex::default();
    place.progress = Arc::new(move |read, all| {
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.is_none() && started.elapsed() > QUIET {
            *shown = Some(bar(all));
        }
        if let Some(bar) = &*shown {
            bar.set_position(read);
            if read >= all {
                bar.finish_and_clear();
            }
        }
    });
    place
}

fn bar(bytes: u64) -> ProgressBar {
    let template = "loading {bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(template).expect("the template is fixed and valid");
    ProgressBar::new(bytes).with_style(style)
}

/// An action other than serving.
#[derive(Debug)]
pub(crate) enum Task<'a> {
    Check { directory: &'a Path, repair: bool },
    Export { directory: &'a Path },
    Import { directory: &'a Path, file: &'a Path },
}

impl<'a> Task<'a> {
    /// Returns the action that the command line requests, if any.
    pub(crate) fn of(args: &'a EngineArgs) -> Option<Self> {
        if let Some(directory) = &args.check {
            return Some(Self::Check { directory, repair: args.repair });
        }
        if let Some(directory) = &args.export {
            return Some(Self::Export { directory });
        }
        match args.import.as_deref() {
            Some([directory, file]) => Some(Self::Import { directory, file }),
            _ => None,
        }
    }

    /// Runs the action.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Check { directory, repair } => check_directory(directory, repair),
            Self::Export { directory } => export_directory(directory),
            Self::Import { directory, file } => import_file(directory, file),
        }
    }
}

fn fail(error: impl std::fmt::Display) -> Failure {
    Failure::Work(error.to_string())
}

fn disk(directory: &Path) -> Result<DirectoryDisk, Failure> {
    if !directory.is_dir() {
        return Err(Failure::Work(format!("{} is not a directory", directory.display())));
    }
    DirectoryDisk::new(directory).map_err(fail)
}

/// Reports what log and snapshot hold. Unrepaired damage is a failure.
fn check_directory(directory: &Path, mend: bool) -> Result<(), Failure> {
    let disk = disk(directory)?;
    let _lock = if mend { Some(DirectoryLock::take(directory).map_err(fail)?) } else { None };
    let mut found = false;
    let mut damaged = false;
    for name in [LOG_FILE, SNAPSHOT_FILE] {
        let Some(report) = check(&disk, name).map_err(fail)? else { continue };
        found = true;
        terminal::announce(&report.to_string());
        if report.cut().is_none() {
            continue;
        }
        if !mend {
            damaged = true;
        } else if let Some(side) = repair(&disk, name, &report).map_err(fail)? {
            let side = directory.join(side);
            terminal::announce(&format!("repaired; what was cut off is in {}", side.display()));
        }
    }
    match (found, damaged) {
        (false, _) => Err(Failure::Work(format!("there is no log in {}", directory.display()))),
        (true, true) => Err(Failure::Work("not everything is whole".into())),
        (true, false) => Ok(()),
    }
}

fn export_directory(directory: &Path) -> Result<(), Failure> {
    let disk = disk(directory)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let exported = export(&disk, &mut out).map_err(fail)?;
    if let Some(torn) = exported.torn {
        terminal::remark(&format!(
            "left out {} bytes from offset {} on, which are not a whole record",
            torn.bytes, torn.offset
        ));
    }
    terminal::remark(&format!("exported {} operations", exported.operations));
    Ok(())
}

/// Runs the commands of a file on the data in the directory.
fn import_file(directory: &Path, file: &Path) -> Result<(), Failure> {
    let input = File::open(file).map_err(|error| fail(format!("{}: {error}", file.display())))?;
    let mut settings = Settings::default();
    settings.appendonly = true;
    let options = Options { settings, ..Options::default() };
    let core = Core::new(options, Arc::new(SystemClock::new()));
    let notices = terminal::notices(Level::Warning);
    let journal = open_journal(place(directory))(&core, &notices).map_err(fail)?;
    let transport = Transport::Local;
    let session = core.open(Peer { addr: "import".into(), local_addr: String::new(), transport });
    let mut import = Import {
        core: &core,
        journal: &*journal,
        session,
        effects: Vec::new(),
        done: 0,
        refused: None,
    };
    let read = import.run(&mut Commands::new(BufReader::new(input)));
    journal.close().map_err(fail)?;
    let place = directory.display();
    terminal::announce(&format!("imported {} commands into {place}", import.done));
    read?;
    match import.refused {
        None => Ok(()),
        Some((count, first)) => {
            Err(Failure::Work(format!("{count} commands were refused; the first: {first}")))
        }
    }
}

/// A running import.
struct Import<'a> {
    core: &'a Core,
    journal: &'a dyn Journal,
    session: SessionId,
    effects: Vec<u8>,
    done: u64,
    /// Number of refused commands, and the reason for the first.
    refused: Option<(u64, String)>,
}

impl Import<'_> {
    fn run(&mut self, commands: &mut Commands<impl io::BufRead>) -> Result<(), Failure> {
        while let Some(args) = commands.next_command().map_err(fail)? {
            self.execute(&args)?;
        }
        self.write()
    }

    fn execute(&mut self, args: &[Vec<u8>]) -> Result<(), Failure> {
        let mut request = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            request.extend_from_slice(arg);
            request.extend_from_slice(b"\r\n");
        }
        self.core.feed(self.session, &request);
        let mut engine = self.core.engine();
        engine.take_effects(&mut self.effects);
        let name = String::from_utf8_lossy(&args[0]);
        if engine.is_blocked(self.session) || engine.wants_close(self.session) {
            return Err(fail(format!("{name} cannot be imported: it waits, or ends the session")));
        }
        let output = engine.take_output(self.session).unwrap_or_default();
        drop(engine);
        self.done += 1;
        if let Some(error) = output.strip_prefix(b"-") {
            let text = format!("{name}: {}", String::from_utf8_lossy(error).trim_end());
            self.refused.get_or_insert((0, text)).0 += 1;
        }
        if self.effects.len() >= BATCH_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), Failure> {
        let position = self.journal.stage(&self.effects);
        self.effects.clear();
        self.journal.commit(position).map_err(fail)
    }
}
