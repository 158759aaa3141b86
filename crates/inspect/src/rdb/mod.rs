//! Big keys from an RDB file, without a server.
//!
//! A reader of our own, because what we need is less than what others do: members and bytes of each
//! key, passed over in one stream without building a value, in the memory of one packed piece. The
//! crate `rdb` 0.4 decodes every value and leaves out streams, `librdb` needs a C library.
//!
//! ```text
//! "REDIS" or "VALKEY", version; then records of an opcode or of a type, key and value; 0xff; CRC-64
//! ```
//!
//! It reads what Redis 2.4 to 8.0 and Valkey 7 to 9.0 write ([`NEWEST_REDIS`], [`NEWEST_VALKEY`]). A
//! newer version may have anything in it, so it is refused. Whatever is wrong with a file, what was
//! read before it is in the report, and the error says at which byte it is.
//!
//! Deliberately absent: values. Sizes are estimates of what a server with jemalloc needs (`size.rs`).

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
    time::{Duration, Instant},
};

use self::source::Source;
use super::{
    Kind, MAX_TOP, Report, Thresholds, glob,
    report::{Asked, Collector, Measured},
};

/// The newest version of Redis' files that is read: that of Redis 7.4 and 8.0.
pub const NEWEST_REDIS: u32 = 12;
/// The newest version of Valkey's own files that is read: that of Valkey 9.0.
pub const NEWEST_VALKEY: u32 = 80;
/// Bytes of a key that are kept.
const MAX_KEY: usize = 64 << 10;
/// How many keys are read between two looks at who watches.
const WATCH_EVERY: u64 = 1_024;

/// Why a file could not be read to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RdbError {
    /// The operating system says no.
    #[error("cannot read on: {0}")]
    Io(io::Error),
    /// It does not begin as an RDB file does.
    #[error("this is no RDB file: it does not begin with REDIS or VALKEY and a version")]
    NotRdb,
    /// A newer one than we know.
    #[error("RDB version {found} of {maker} is newer than {newest}, the newest that is read here")]
    Version {
        /// Who wrote it.
        maker: &'static str,
        /// What the file says.
        found: u32,
        /// What is known.
        newest: u32,
    },
    /// It ends too early.
    #[error("the file is cut off at byte {offset}")]
    Truncated {
        /// Its length.
        offset: u64,
    },
    /// It has something in it that cannot be.
    #[error("the file is damaged before byte {offset}: {what}")]
    Corrupt {
        /// How far it was read.
        offset: u64,
        /// What was found.
        what: String,
    },
    /// Everything was read, but a byte somewhere is wrong.
    #[error(
        "the file is damaged: its checksum at byte {offset} is {stored:#018x}, its bytes have \
         {computed:#018x}"
    )]
    Checksum {
        /// Where the checksum stands.
        offset: u64,
        /// What the file says.
        stored: u64,
        /// What it should say.
        computed: u64,
    },
}

/// Who wrote a file: from some version on the same numbers mean different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    Redis,
    Valkey,
}

/// How reading a file ended.
#[derive(Debug)]
#[must_use]
pub enum RdbEnd {
    /// Everything was read, and the checksum is right (or was switched off by who wrote it).
    Complete,
    /// Whoever watched had enough.
    Interrupted,
    /// It could not be read on; the report has what came before.
    Failed(RdbError),
}

/// Looks through RDB files for big keys.
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
#[derive(Debug, Clone)]
#[must_use]
pub struct RdbSurvey {
    thresholds: Thresholds,
    separator: u8,
    top: usize,
    kind: Option<Kind>,
    pattern: Option<Vec<u8>>,
}

/// How far reading is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RdbProgress {
    /// Bytes of the file.
    pub bytes: u64,
    /// Keys that were seen.
    pub keys: u64,
}

impl Default for RdbSurvey {
    fn default() -> Self {
        Self::new()
    }
}

impl RdbSurvey {
    /// With the defaults of a survey.
    pub fn new() -> Self {
        let thresholds = Thresholds::default();
        RdbSurvey { thresholds, separator: b':', top: 20, kind: None, pattern: None }
    }

    /// When a key is big.
    pub fn thresholds(mut self, thresholds: Thresholds) -> Self {
        self.thresholds = thresholds;
        self
    }

    /// What ends a prefix; `:` without it.
    pub fn separator(mut self, separator: u8) -> Self {
        self.separator = separator;
        self
    }

    /// How many of the largest keys the report names; 20 without it, at most [`MAX_TOP`].
    pub fn top(mut self, keys: usize) -> Self {
        self.top = keys.min(MAX_TOP);
        self
    }

    /// Only keys of this type.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Only keys that match this pattern, as `SCAN` would understand it.
    pub fn matching(mut self, pattern: impl Into<Vec<u8>>) -> Self {
        self.pattern = Some(pattern.into());
        self
    }

    /// Reads a file to its end, or as far as it goes, and tells `watch` now and then how far it is.
    pub fn read(
        &self,
        name: &str,
        input: impl Read,
        watch: impl FnMut(RdbProgress) -> ControlFlow<()>,
    ) -> (Report, RdbEnd) {
        let started = Instant::now();
        let collector = Collector::new(self.thresholds.clone(), self.separator, self.top);
        let mut reading = Reading {
            survey: self,
            source: Source::new(input),
            collector,
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
        collector.report.took = started.elapsed();
        collector.report.notes.push(
            "bytes: estimated from the file for redis-server 7 with jemalloc; members are exact"
                .into(),
        );
        (collector.finish(), end)
    }
}

/// One file that is being read.
struct Reading<'a, R> {
    survey: &'a RdbSurvey,
    source: Source<R>,
    collector: Collector,
    node: Arc<str>,
    maker: Maker,
    version: u32,
    database: u32,
    /// When the file was written: what lifetimes are told from.
    written_millis: u64,
    keys: u64,
    key: Vec<u8>,
    scratch: Vec<u8>,
}

/// What stood before a key.
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
            // Which slot the next keys are of, and how many.
            244 => (0..3).try_for_each(|_| source.length().map(drop)),
            245 => source.skip_string().map(drop),
            247 => {
                // A module's name and moment, then what it wrote.
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

    /// The checksum, from version 5 on; zero where it was switched off.
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
