//! Finds big keys in an RDB file, without a server.
//!
//! A separate reader, because it needs less than other readers provide: members and bytes of each
//! key, read in one pass without building a value, in the memory of one packed piece. The crate
//! `rdb` 0.4 decodes every value and does not support streams, `librdb` needs a C library.
//!
//! ```text
//! "REDIS" or "VALKEY", version; then records of an opcode or of a type, key and value; 0xff; CRC-64
//! ```
//!
//! It reads what Redis 2.4 to 8.0 and Valkey 7 to 9.0 write ([`NEWEST_REDIS`], [`NEWEST_VALKEY`]).
//! A newer version may contain anything, so it is refused. Whatever is wrong with a file, the
//! report has everything that was read before, and the error names the byte.
//!
//! Deliberately absent: values. Sizes are estimates of what a server with jemalloc needs
//! (`size.rs`).

mod crc64;
mod index;
mod lzf;
mod packed;
mod size;
mod source;
mod value;

use std::{
    io::{self, Read},
    ops::ControlFlow,
    sync::Arc,
    time::Duration,
};

use seawall_resilience::clock::Clock;

use self::source::Source;
use super::{
    Kind, Report, Thresholds, glob,
    report::{Asked, Collector, Measured},
    report_settings::{ReportSettings, report_setters},
};

/// The newest supported version of Redis' files: that of Redis 7.4 and 8.0.
pub const NEWEST_REDIS: u32 = 12;
/// The newest supported version of Valkey's own files: that of Valkey 9.0.
pub const NEWEST_VALKEY: u32 = 80;
/// Bytes of a key that are kept.
const MAX_KEY: usize = 64 << 10;
/// Keys that are read between two calls of `watch`.
const WATCH_EVERY: u64 = 1_024;

/// Why a file could not be read to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RdbError {
    /// An error of the operating system.
    #[error("cannot read on: {0}")]
    Io(io::Error),
    /// The file does not begin like an RDB file.
    #[error("this is no RDB file: it does not begin with REDIS or VALKEY and a version")]
    NotRdb,
    /// The version of the file is too new.
    #[error("RDB version {found} of {maker} is newer than {newest}, the newest that is read here")]
    Version {
        /// The program that wrote the file.
        maker: &'static str,
        /// The version of the file.
        found: u32,
        /// The newest supported version.
        newest: u32,
    },
    /// The file ends too early.
    #[error("the file is cut off at byte {offset}")]
    Truncated {
        /// Length of the file.
        offset: u64,
    },
    /// The file has invalid contents.
    #[error("the file is damaged before byte {offset}: {what}")]
    Corrupt {
        /// How far it was read.
        offset: u64,
        /// What was found.
        what: String,
    },
    /// Everything was read, but the checksum does not match.
    #[error(
        "the file is damaged: its checksum at byte {offset} is {stored:#018x}, its bytes have \
         {computed:#018x}"
    )]
    Checksum {
        /// Position of the checksum.
        offset: u64,
        /// The checksum in the file.
        stored: u64,
        /// The checksum of the bytes.
        computed: u64,
    },
}

/// The program that wrote a file: from some version on the same numbers mean different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    Redis,
    Valkey,
}

/// How reading a file ended.
#[derive(Debug)]
#[must_use]
pub enum RdbEnd {
    /// Everything was read, and the checksum is right (or was disabled when the file was written).
    Complete,
    /// `watch` stopped the reading.
    Interrupted,
    /// Reading failed; the report has what came before.
    Failed(RdbError),
}

/// Surveys RDB files for big keys.
///
/// ```
/// use std::ops::ControlFlow;
/// use seawall::survey::{RdbEnd, RdbSurvey};
///
/// // An empty dump of Redis 7: magic, end, no checksum.
/// let file: &[u8] = b"REDIS0010\xff\0\0\0\0\0\0\0\0";
/// let (report, end) = RdbSurvey::new().read("dump.rdb", file, |_| ControlFlow::Continue(()));
/// assert!(matches!(end, RdbEnd::Complete));
/// assert_eq!(report.totals.keys, 0);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct RdbSurvey {
    report: ReportSettings,
    kind: Option<Kind>,
    pattern: Option<Vec<u8>>,
}

/// Progress of reading a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RdbProgress {
    /// Bytes that were read.
    pub bytes: u64,
    /// Keys that were found.
    pub keys: u64,
}

impl RdbSurvey {
    /// Creates a survey with the default settings.
    pub fn new() -> Self {
        RdbSurvey::default()
    }

    report_setters!();

    /// Restricts the survey to keys of this type.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Restricts the survey to keys that match this `SCAN` pattern.
    pub fn matching(mut self, pattern: impl Into<Vec<u8>>) -> Self {
        self.pattern = Some(pattern.into());
        self
    }

    /// Reads a file to its end, or as far as possible, and regularly calls `watch` with the
    /// progress.
    pub fn read(
        &self,
        name: &str,
        input: impl Read,
        watch: impl FnMut(RdbProgress) -> ControlFlow<()>,
    ) -> (Report, RdbEnd) {
        let mut reading = Reading {
            survey: self,
            source: Source::new(input),
            // There is no handle whose clock could be used.
            collector: self.report.begin(&Clock::system()),
            node: name.into(),
            maker: Maker::Redis,
            version: 0,
            database: 0,
            written_millis: 0,
            keys: 0,
            key: Vec::new(),
            scratch: Vec::new(),
        };
        let end = match reading.run(watch) {
            Ok(ControlFlow::Continue(())) => RdbEnd::Complete,
            Ok(ControlFlow::Break(())) => RdbEnd::Interrupted,
            Err(error) => RdbEnd::Failed(error),
        };
        let mut collector = reading.collector;
        let keys = collector.report.totals.keys;
        collector.report.asked = vec![Asked { name: reading.node, role: None, keys }];
        collector.report.notes.push(
            "bytes: estimated from the file for redis-server 7 with jemalloc; members are exact"
                .into(),
        );
        (collector.finish(), end)
    }
}

/// A file that is being read.
struct Reading<'a, R> {
    survey: &'a RdbSurvey,
    source: Source<R>,
    collector: Collector,
    node: Arc<str>,
    maker: Maker,
    version: u32,
    database: u32,
    /// When the file was written: lifetimes are relative to that time.
    written_millis: u64,
    keys: u64,
    key: Vec<u8>,
    scratch: Vec<u8>,
}

/// The records before a key.
#[derive(Default, Clone, Copy)]
struct Before {
    expires_millis: Option<u64>,
    idle: Option<Duration>,
}

impl<R: Read> Reading<'_, R> {
    fn run(
        &mut self,
        mut watch: impl FnMut(RdbProgress) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, RdbError> {
        self.magic()?;
        let mut before = Before::default();
        loop {
            match self.source.byte()? {
                0xff => {
                    self.end()?;
                    return Ok(ControlFlow::Continue(()));
                }
                kind @ 0..=0x7f => {
                    self.entry(kind, std::mem::take(&mut before))?;
                    self.keys += 1;
                    let progress = RdbProgress { bytes: self.source.offset(), keys: self.keys };
                    if self.keys.is_multiple_of(WATCH_EVERY) && watch(progress).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                opcode => self.opcode(opcode, &mut before)?,
            }
        }
    }

    fn magic(&mut self) -> Result<(), RdbError> {
        let short = |error| match error {
            RdbError::Truncated { .. } => RdbError::NotRdb,
            other => other,
        };
        let start: [u8; 9] = self.source.array().map_err(short)?;
        let (maker, digits) = match (start.strip_prefix(b"REDIS"), start.strip_prefix(b"VALKEY")) {
            (Some(digits), _) => (Maker::Redis, digits),
            (_, Some(digits)) => (Maker::Valkey, digits),
            _ => return Err(RdbError::NotRdb),
        };
        self.maker = maker;
        let digits = std::str::from_utf8(digits).map_err(|_| RdbError::NotRdb)?;
        self.version = digits.parse().map_err(|_| RdbError::NotRdb)?;
        let (maker, newest) = match maker {
            Maker::Redis => ("Redis", NEWEST_REDIS),
            Maker::Valkey => ("Valkey", NEWEST_VALKEY),
        };
        if self.version == 0 {
            return Err(RdbError::NotRdb);
        }
        if self.version > newest {
            return Err(RdbError::Version { maker, found: self.version, newest });
        }
        Ok(())
    }

    fn opcode(&mut self, opcode: u8, before: &mut Before) -> Result<(), RdbError> {
        let source = &mut self.source;
        match opcode {
            // The slot of the next keys, and their number.
            244 => (0..3).try_for_each(|_| source.length().map(drop)),
            245 => source.skip_string().map(drop),
            247 => {
                // A module's name and moment, then its data.
                (0..3).try_for_each(|_| source.length().map(drop))?;
                value::module(source).map(drop)
            }
            248 => {
                before.idle = Some(Duration::from_secs(source.length()?));
                Ok(())
            }
            249 => source.byte().map(drop),
            250 => self.aux(),
            251 => (0..2).try_for_each(|_| source.length().map(drop)),
            252 => {
                before.expires_millis = Some(u64::from_le_bytes(source.array()?));
                Ok(())
            }
            253 => {
                let seconds = u32::from_le_bytes(source.array()?);
                before.expires_millis = Some(u64::from(seconds) * 1_000);
                Ok(())
            }
            254 => {
                let database = source.length()?;
                self.database = u32::try_from(database)
                    .map_err(|_| self.source.corrupt(format!("database {database}")))?;
                Ok(())
            }
            other => Err(source.corrupt(format!("the unknown mark {other}"))),
        }
    }

    fn aux(&mut self) -> Result<(), RdbError> {
        self.source.string(MAX_KEY, &mut self.key)?;
        self.source.string(MAX_KEY, &mut self.scratch)?;
        if self.key == b"ctime" {
            let seconds: Option<u64> =
                std::str::from_utf8(&self.scratch).ok().and_then(|text| text.parse().ok());
            self.written_millis = seconds.unwrap_or(0).saturating_mul(1_000);
        }
        Ok(())
    }

    fn entry(&mut self, kind: u8, before: Before) -> Result<(), RdbError> {
        let length = self.source.string(MAX_KEY, &mut self.key)?;
        let value = value::read(&mut self.source, kind, self.maker, &mut self.scratch)?;
        let wanted = self.survey.kind.is_none_or(|kind| kind == value.kind)
            && self.survey.pattern.as_ref().is_none_or(|glob| glob::matches(glob, &self.key));
        if wanted {
            let lifetime = before.expires_millis;
            self.collector.add(&Measured {
                key: &self.key,
                kind: value.kind,
                bytes: value.bytes.saturating_add(size::key(length)),
                members: value.members,
                node: &self.node,
                database: self.database,
                lifetime: lifetime
                    .map(|at| Duration::from_millis(at.saturating_sub(self.written_millis))),
                idle: before.idle,
            });
        }
        Ok(())
    }

    /// Checks the checksum, which exists from version 5 on; zero if it was disabled.
    fn end(&mut self) -> Result<(), RdbError> {
        if self.version < 5 {
            return Ok(());
        }
        let computed = self.source.checksum();
        let offset = self.source.offset();
        let stored = u64::from_le_bytes(self.source.array()?);
        if stored != 0 && stored != computed {
            return Err(RdbError::Checksum { offset, stored, computed });
        }
        Ok(())
    }
}
