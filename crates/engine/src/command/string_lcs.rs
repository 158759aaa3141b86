//! LCS: the longest common subsequence of two strings.
//!
//! The table of lengths has (m+1)(n+1) cells, as the algorithm wants it; its size is bounded before
//! it is allocated.

use crate::args::{self, is};
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::keyspace::Str;
use crate::resp::Reply;

/// Limit: cells of the table.
const MAX_CELLS: usize = 1 << 30;

#[derive(Default)]
struct Options {
    len: bool,
    idx: bool,
    with_match_len: bool,
    min_match_len: usize,
}

impl Options {
    fn parse(a: &[&[u8]]) -> Result<Options, Error> {
        let mut options = Options::default();
        let mut i = 3;
        while i < a.len() {
            if is(a[i], "idx") {
                options.idx = true;
            } else if is(a[i], "len") {
                options.len = true;
            } else if is(a[i], "withmatchlen") {
                options.with_match_len = true;
            } else if is(a[i], "minmatchlen") && i + 1 < a.len() {
                options.min_match_len = usize::try_from(args::int(a[i + 1])?).unwrap_or(0);
                i += 1;
            } else {
                return Err(Error::SYNTAX);
            }
            i += 1;
        }
        if options.idx && options.len {
            return Err(Error::fixed(
                "ERR If you want both the length and indexes, please just use IDX.",
            ));
        }
        Ok(options)
    }
}

/// A stretch of equal bytes: where it begins in both strings, and how long it is.
struct Match {
    a: usize,
    b: usize,
    len: usize,
}

pub(super) fn lcs(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let not_string = Error::fixed("ERR The specified keys must contain string values");
    let mut text = |key: &[u8]| -> Result<Vec<u8>, Error> {
        let value = cx.str(key).map_err(|_| not_string.clone())?;
        Ok(value.map(Str::to_vec).unwrap_or_default())
    };
    let (x, y) = (text(a[1])?, text(a[2])?);
    let options = Options::parse(a)?;
    let cells = (x.len() + 1).checked_mul(y.len() + 1).filter(|cells| *cells <= MAX_CELLS);
    if cells.is_none() {
        return Err(Error::fixed(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    let width = y.len() + 1;
    let mut lengths = vec![0u32; width * (x.len() + 1)];
    for i in 1..=x.len() {
        for j in 1..=y.len() {
            lengths[i * width + j] = if x[i - 1] == y[j - 1] {
                lengths[(i - 1) * width + j - 1] + 1
            } else {
                lengths[(i - 1) * width + j].max(lengths[i * width + j - 1])
            };
        }
    }
    let total = lengths[x.len() * width + y.len()] as usize;
    if options.len {
        out.count(total);
        return Ok(());
    }
    let (common, matches) = walk_back(&x, &y, &lengths);
    if !options.idx {
        out.bulk(&common);
        return Ok(());
    }
    out.map(2);
    out.bulk(b"matches");
    let shown: Vec<&Match> = matches.iter().filter(|m| m.len >= options.min_match_len).collect();
    out.array(shown.len());
    for m in shown {
        out.array(2 + usize::from(options.with_match_len));
        for from in [m.a, m.b] {
            out.array(2);
            out.count(from);
            out.count(from + m.len - 1);
        }
        if options.with_match_len {
            out.count(m.len);
        }
    }
    out.bulk(b"len");
    out.count(total);
    Ok(())
}

/// The subsequence and its stretches, the last one first.
fn walk_back(x: &[u8], y: &[u8], lengths: &[u32]) -> (Vec<u8>, Vec<Match>) {
    let width = y.len() + 1;
    let (mut i, mut j) = (x.len(), y.len());
    let mut common = Vec::new();
    let mut matches: Vec<Match> = Vec::new();
    while i > 0 && j > 0 {
        if x[i - 1] == y[j - 1] {
            (i, j) = (i - 1, j - 1);
            common.push(x[i]);
            match matches.last_mut() {
                Some(m) if m.a == i + 1 && m.b == j + 1 => {
                    *m = Match { a: i, b: j, len: m.len + 1 };
                }
                _ => matches.push(Match { a: i, b: j, len: 1 }),
            }
        } else if lengths[(i - 1) * width + j] > lengths[i * width + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    common.reverse();
    (common, matches)
}
