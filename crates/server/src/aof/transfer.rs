//! Export and import: writes a log as a plain Redis command stream, and reads commands from a
//! stream.
//!
//! The export is what `redis-cli --pipe` accepts: RESP arrays with a SELECT whenever the database
//! changes. The import reads the same, Redis' own append-only files (annotations included, an RDB
//! preamble not) and hand-typed lines. Sizes are not trusted until the bytes arrive: memory grows
//! with the bytes read, within Redis' own limits.

use std::io::{self, BufRead, Read, Write};

use super::disk::Disk;
use super::reader::{Torn, load};
use super::{LOG_FILE, LogError, SNAPSHOT_FILE};

/// Redis: a request has at most this many arguments.
const MAX_ARGS: u64 = 1024 * 1024;
/// Redis: `proto-max-bulk-len` by default.
const MAX_BULK_BYTES: u64 = 512 << 20;
/// Redis: an inline request is at most this long.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Contents of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exported {
    /// Commands written, not counting the SELECTs between them.
    pub operations: u64,
    /// The torn end that was left out.
    pub torn: Option<Torn>,
}

/// Writes the contents of `disk` as a Redis command stream: the log, or the snapshot if there is no
/// log.
///
/// # Errors
/// If both are missing, the file is damaged, or `out` cannot be written.
pub fn export(disk: &dyn Disk, out: &mut impl Write) -> Result<Exported, LogError> {
    match export_file(disk, LOG_FILE, out)? {
        Some(exported) => Ok(exported),
        None => export_file(disk, SNAPSHOT_FILE, out)?.ok_or_else(|| LogError::Io {
            file: disk.display(LOG_FILE),
            error: io::ErrorKind::NotFound.into(),
        }),
    }
}

fn export_file(
    disk: &dyn Disk,
    name: &str,
    out: &mut impl Write,
) -> Result<Option<Exported>, LogError> {
    let mut selected = None;
    let mut failed = None;
    let loaded = load(
        disk,
        name,
        |operation| {
            let written = (|| {
                if selected != Some(operation.db) {
                    selected = Some(operation.db);
                    let db = operation.db.to_string();
                    write_command(out, [b"SELECT".as_slice(), db.as_bytes()].into_iter())?;
                }
                write_command(out, operation.args())
            })();
            written.map_err(|error: io::Error| {
                let text = error.to_string();
                failed = Some(error);
                text
            })
        },
        |_, _| {},
    );
    let output = |error| LogError::Io { file: "the export".to_owned(), error };
    if let Some(error) = failed {
        return Err(output(error));
    }
    let Some(loaded) = loaded? else { return Ok(None) };
    out.flush().map_err(output)?;
    Ok(Some(Exported { operations: loaded.operations, torn: loaded.torn }))
}

fn write_command<'a>(
    out: &mut impl Write,
    args: impl ExactSizeIterator<Item = &'a [u8]>,
) -> io::Result<()> {
    write!(out, "*{}\r\n", args.len())?;
    for arg in args {
        write!(out, "${}\r\n", arg.len())?;
        out.write_all(arg)?;
        out.write_all(b"\r\n")?;
    }
    Ok(())
}

/// Reason why a stream could not be read as commands.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The source failed.
    #[error("reading failed at byte {offset}: {error}")]
    Io {
        /// How far reading got.
        offset: u64,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The bytes are not a command.
    #[error("the command at byte {offset} cannot be read: {reason}")]
    Syntax {
        /// Where the command begins.
        offset: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// It is a Redis snapshot, or an append-only file that begins with one.
    #[error(
        "this is a Redis snapshot, or an append-only file with a snapshot in front: run CONFIG SET \
         aof-use-rdb-preamble no and BGREWRITEAOF on that server and import the new file"
    )]
    Snapshot,
}

/// Reads commands one after another.
#[derive(Debug)]
pub struct Commands<R> {
    input: R,
    offset: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Commands<R> {
    /// Reads commands from `input`.
    pub fn new(input: R) -> Self {
        Self { input, offset: 0, line: Vec::new() }
    }

    /// Returns the number of bytes read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the next command's arguments, at least one; `None` at the end.
    ///
    /// # Errors
    /// If the stream cannot be read or does not consist of commands.
    pub fn next_command(&mut self) -> Result<Option<Vec<Vec<u8>>>, ImportError> {
        loop {
            let start = self.offset;
            if !self.read_line(start)? {
                return Ok(None);
            }
            if start == 0 && self.line.starts_with(b"REDIS0") {
                return Err(ImportError::Snapshot);
            }
            let args = match self.line.first() {
                // Redis: append-only files carry annotations such as #TS:1700000000.
                None | Some(b'#') => continue,
                Some(b'*') => self.read_array(start)?,
                Some(_) => {
                    let reason = "unbalanced quotes";
                    split(&self.line).ok_or(ImportError::Syntax { offset: start, reason })?
                }
            };
            if !args.is_empty() {
                return Ok(Some(args));
            }
        }
    }

    fn read_array(&mut self, start: u64) -> Result<Vec<Vec<u8>>, ImportError> {
        let syntax = |reason| ImportError::Syntax { offset: start, reason };
        let count = number(&self.line[1..], MAX_ARGS).ok_or(syntax("invalid argument count"))?;
        let mut args = Vec::new();
        for _ in 0..count {
            if !self.read_line(start)? {
                return Err(syntax("the stream ends within it"));
            }
            let Some(length) = self.line.strip_prefix(b"$") else {
                return Err(syntax("an argument does not begin with $"));
            };
            let length = number(length, MAX_BULK_BYTES).ok_or(syntax("invalid length"))?;
            let mut arg = Vec::new();
            let got = (&mut self.input).take(length + 2).read_to_end(&mut arg);
            let got = got.map_err(|error| ImportError::Io { offset: self.offset, error })?;
            self.offset += got as u64;
            if (got as u64) < length + 2 {
                return Err(syntax("the stream ends within it"));
            }
            if !arg.ends_with(b"\r\n") {
                return Err(syntax("an argument is longer than its length says"));
            }
            arg.truncate(length as usize);
            args.push(arg);
        }
        Ok(args)
    }

    /// Reads a line without its end. Returns `false` at the end of the stream.
    fn read_line(&mut self, start: u64) -> Result<bool, ImportError> {
        self.line.clear();
        let limited = (&mut self.input).take(MAX_LINE_BYTES).read_until(b'\n', &mut self.line);
        let got = limited.map_err(|error| ImportError::Io { offset: self.offset, error })?;
        self.offset += got as u64;
        if got as u64 == MAX_LINE_BYTES && !self.line.ends_with(b"\n") {
            return Err(ImportError::Syntax { offset: start, reason: "a line is too long" });
        }
        while self.line.last().is_some_and(|byte| matches!(byte, b'\r' | b'\n')) {
            self.line.pop();
        }
        Ok(got > 0)
    }
}

fn number(digits: &[u8], most: u64) -> Option<u64> {
    let value: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (value <= most).then_some(value)
}

/// Splits a typed line into arguments: double quotes with escapes, single quotes without.
fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut args = Vec::new();
    let mut rest = line.trim_ascii();
    while let Some(&first) = rest.first() {
        let (arg, after) = match first {
            b'"' | b'\'' => quoted(rest)?,
            _ => {
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                (rest[..end].to_vec(), &rest[end..])
            }
        };
        // A closing quote ends an argument, so a blank must follow.
        if after.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
            return None;
        }
        args.push(arg);
        rest = after.trim_ascii_start();
    }
    Some(args)
}

fn quoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (&quote, mut rest) = text.split_first()?;
    let mut arg = Vec::new();
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match (byte, quote) {
            (b'\\', b'"') => {
                let (byte, after) = escape(rest)?;
                arg.push(byte);
                rest = after;
            }
            (b'\\', _) if rest.first() == Some(&b'\'') => {
                arg.push(b'\'');
                rest = &rest[1..];
            }
            _ if byte == quote => return Some((arg, rest)),
            _ => arg.push(byte),
        }
    }
}

fn escape(rest: &[u8]) -> Option<(u8, &[u8])> {
    if let [b'x', high, low, after @ ..] = rest
        && high.is_ascii_hexdigit()
        && low.is_ascii_hexdigit()
    {
        let digits = [*high, *low];
        let text = std::str::from_utf8(&digits).expect("hexadecimal digits are ASCII");
        return Some((u8::from_str_radix(text, 16).ok()?, after));
    }
    let (&byte, after) = rest.split_first()?;
    let byte = match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'a' => 7,
        b'b' => 8,
        other => other,
    };
    Some((byte, after))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::Arc;
    use std::time::Duration;

    use seawall_engine::effects::Effects;

    use super::super::sim::SimDisk;
    use super::super::{Log, Options};
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<Vec<String>>, ImportError> {
        let mut commands = Commands::new(Cursor::new(bytes));
        let mut all = Vec::new();
        while let Some(args) = commands.next_command()? {
            all.push(args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect());
        }
        Ok(all)
    }

    #[test]
    fn an_export_is_read_back_by_the_import() {
        let disk = SimDisk::new(1);
        let options = Options { background: false, ..Options::default() };
        let log = Log::open(Arc::new(disk.clone()), None, options, Arc::new(|| Duration::ZERO));
        let log = log.expect("an empty disk");
        let mut effects = Effects::new();
        effects.push(0, &["SET", "a", "1\r\n2"]);
        effects.push(3, &["DEL", "b"]);
        effects.push(3, &["SET", "c", ""]);
        let position = log.stage(effects.as_bytes());
        log.commit(position).expect("room");
        let mut out = Vec::new();
        let exported = export(&disk, &mut out).expect("a whole log");
        assert_eq!(exported, Exported { operations: 3, torn: None });
        let expected = [
            vec!["SELECT", "0"],
            vec!["SET", "a", "1\r\n2"],
            vec!["SELECT", "3"],
            vec!["DEL", "b"],
            vec!["SET", "c", ""],
        ];
        assert_eq!(read(&out).expect("commands"), expected);
    }

    #[test]
    fn typed_lines_and_annotations_are_read() {
        let text =
            b"#TS:1700000000\r\nSET k \"a\\x41\\n b\"\n\n*1\r\n$5\r\nMULTI\r\nSET q 'it\\'s'\n";
        let expected = [vec!["SET", "k", "aA\n b"], vec!["MULTI"], vec!["SET", "q", "it's"]];
        assert_eq!(read(text).expect("commands"), expected);
    }

    #[test]
    fn what_is_no_command_is_named() {
        assert!(matches!(read(b"REDIS0010\xfa"), Err(ImportError::Snapshot)));
        for (bytes, offset) in [
            (&b"PING\n*2147483647\r\n"[..], 5),
            (b"*1\r\n$3\r\nab", 0),
            (b"*1\r\n$536870913\r\n", 0),
            (b"*1\r\n$1\r\nabc\r\n", 0),
            (b"SET \"a\"b\n", 0),
            (b"SET 'a\n", 0),
        ] {
            match read(bytes) {
                Err(ImportError::Syntax { offset: at, .. }) => assert_eq!(at, offset),
                other => panic!("{bytes:?}: {other:?}"),
            }
        }
    }
}
