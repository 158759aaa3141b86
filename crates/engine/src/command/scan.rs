//! Walking the keyspace: SCAN, KEYS, RANDOMKEY, DBSIZE; and the options the SCAN family shares.

use crate::args::{self, is};
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::glob::{self, Case};
use crate::keyspace::Entry;
use crate::number;
use crate::resp::Reply;
use crate::value::table::Item;

/// What the commands of the SCAN family take.
pub(super) struct ScanOptions<'a> {
    pub(super) cursor: u64,
    pub(super) count: usize,
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    /// Reads cursor and options; `typed` allows TYPE, which only SCAN itself has.
    pub(super) fn parse(
        cursor: &[u8],
        words: &[&'a [u8]],
        typed: bool,
    ) -> Result<ScanOptions<'a>, Error> {
        let mut options = ScanOptions {
            cursor: parse_cursor(cursor)?,
            count: 10,
            pattern: None,
            type_name: None,
        };
        let mut i = 0;
        while i < words.len() {
            let value = words.get(i + 1).copied();
            match value {
                Some(value) if is(words[i], "count") => {
                    let count = args::int(value)?;
                    if count < 1 {
                        return Err(Error::SYNTAX);
                    }
                    options.count = count as usize;
                }
                Some(value) if is(words[i], "match") => {
                    options.pattern = (value != b"*").then_some(value);
                }
                Some(value) if is(words[i], "type") && typed => options.type_name = Some(value),
                _ => return Err(Error::SYNTAX),
            }
            i += 2;
        }
        Ok(options)
    }

    /// Whether an element's name is wanted.
    pub(super) fn wants(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name, Case::Sensitive))
    }
}

fn parse_cursor(text: &[u8]) -> Result<u64, Error> {
    number::parse_u64_lenient(text).ok_or(Error::fixed("ERR invalid cursor"))
}

pub(super) fn scan(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let options = ScanOptions::parse(a[1], &a[2..], true)?;
    let now = cx.now;
    let mut found: Vec<Box<[u8]>> = Vec::new();
    let mut due: Vec<Box<[u8]>> = Vec::new();
    let next = cx.db().table.scan(options.cursor, options.count, |entry| {
        if is_due(entry, now) {
            due.push(entry.key().into());
        } else if options.wants(entry.key())
            && options.type_name.is_none_or(|name| is(name, entry.value().type_name()))
        {
            found.push(entry.key().into());
        }
    });
    for key in due {
        cx.expire_if_due(&key);
    }
    out.array(2);
    out.bulk(next.to_string().as_bytes());
    out.array(found.len());
    for key in found {
        out.bulk(&key);
    }
    Ok(())
}

fn is_due(entry: &Entry, now: i64) -> bool {
    entry.expires_at().is_some_and(|at| at <= now)
}

pub(super) fn keys(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let now = cx.now;
    let mark = out.defer();
    let mut count = 0;
    // Redis: a lone star asks for everything, the empty name included, which no pattern matches.
    let all = a[1] == b"*";
    for entry in cx.db().table.iter() {
        let wanted = all || glob::matches(a[1], entry.key(), Case::Sensitive);
        if wanted && !is_due(entry, now) {
            out.bulk(entry.key());
            count += 1;
        }
    }
    out.end_array(mark, count);
    Ok(())
}

pub(super) fn randomkey(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    // Limit: after this many expired keys, any key is returned.
    const TRIES: usize = 100;
    let now = cx.now;
    for _ in 0..TRIES {
        let engine = &mut *cx.engine;
        let Some(entry) = engine.dbs[cx.db as usize].table.random(&mut engine.rng) else { break };
        if !is_due(entry, now) {
            out.bulk(entry.key());
            return Ok(());
        }
        let key = entry.key().to_vec();
        cx.expire_if_due(&key);
    }
    out.null();
    Ok(())
}

pub(super) fn dbsize(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    out.count(cx.db().len());
    Ok(())
}
