//! What a transcript expects: an exact reply, or a pattern where exact bytes are not guaranteed.

use super::lexer::{Lexer, text, unescape};
use crate::reply::Reply;

/// Maximum nesting of an expected reply.
const MAX_DEPTH: usize = 32;

/// An expected reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    Any,
    Exact(Reply),
    ErrorPrefix(Vec<u8>),
    IntBetween(i64, i64),
    Glob(Vec<u8>),
    Items { kind: Kind, order: Order, items: Vec<Pattern> },
    Map { order: Order, pairs: Vec<(Pattern, Pattern)> },
}

/// Kind of collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Array,
    Set,
    Push,
}

/// Whether the order is free, and for which units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Given,
    Free,
    FreePairs,
}

impl Pattern {
    /// Parses an expected reply that fills the whole `line`.
    pub(super) fn parse(line: &str) -> Result<Self, String> {
        let line = line.trim();
        match line.as_bytes() {
            // On its own line a status or error needs no quotes.
            [b'+', rest @ ..] if rest.first() != Some(&b'"') => {
                return Ok(Self::Exact(Reply::Simple(unescape(rest)?)));
            }
            [b'-', rest @ ..] if rest.first() != Some(&b'"') => return error(rest),
            _ => {}
        }
        let mut lexer = Lexer::new(line);
        let pattern = element(&mut lexer, 0)?;
        lexer.skip_spaces();
        match lexer.rest() {
            [] => Ok(pattern),
            rest => Err(format!("did not expect \"{}\"", text(rest))),
        }
    }

    /// Returns `true` if `reply` matches.
    pub(super) fn matches(&self, reply: &Reply) -> bool {
        match (self, reply) {
            (Self::Any, _) => true,
            (Self::Exact(expected), _) => expected == reply,
            (Self::ErrorPrefix(prefix), Reply::Error(text)) => text.starts_with(prefix),
            (Self::IntBetween(low, high), Reply::Int(n)) => (low..=high).contains(&n),
            (
                Self::Glob(glob),
                Reply::Bulk(text) | Reply::Simple(text) | Reply::Verbatim(_, text),
            ) => glob_matches(glob, text),
            (Self::Items { kind, order, items }, reply) => {
                let found = match (kind, reply) {
                    (Kind::Array, Reply::Array(found))
                    | (Kind::Set, Reply::Set(found))
                    | (Kind::Push, Reply::Push(found)) => found,
                    _ => return false,
                };
                items.len() == found.len() && items_match(*order, items, found)
            }
            (Self::Map { order, pairs }, Reply::Map(found)) => {
                let same =
                    |(p, q): &(Self, Self), (k, v): &(Reply, Reply)| p.matches(k) && q.matches(v);
                pairs.len() == found.len() && each_once(*order != Order::Given, pairs, found, same)
            }
            _ => false,
        }
    }
}

fn items_match(order: Order, items: &[Pattern], found: &[Reply]) -> bool {
    match order {
        Order::Given | Order::Free => {
            each_once(order == Order::Free, items, found, Pattern::matches)
        }
        Order::FreePairs => {
            let wanted: Vec<_> = items.chunks(2).collect();
            let got: Vec<_> = found.chunks(2).collect();
            each_once(true, &wanted, &got, |w, g| {
                w.len() == g.len() && w.iter().zip(*g).all(|(p, r)| p.matches(r))
            })
        }
    }
}

/// Returns `true` if the two lists of equal length pair up, in order or in any order.
fn each_once<P, R>(free: bool, wanted: &[P], found: &[R], same: impl Fn(&P, &R) -> bool) -> bool {
    if !free {
        return wanted.iter().zip(found).all(|(w, f)| same(w, f));
    }
    let mut left: Vec<&R> = found.iter().collect();
    wanted.iter().all(|w| match left.iter().position(|f| same(w, f)) {
        Some(at) => {
            left.swap_remove(at);
            true
        }
        None => false,
    })
}

/// `*` stands for any bytes; every other byte for itself.
fn glob_matches(glob: &[u8], text: &[u8]) -> bool {
    let parts: Vec<&[u8]> = glob.split(|&b| b == b'*').collect();
    let [first, middle @ .., last] = parts.as_slice() else { return glob == text };
    let Some(mut rest) = text.strip_prefix(*first) else { return false };
    for part in middle {
        if part.is_empty() {
            continue;
        }
        let Some(at) = rest.windows(part.len()).position(|w| w == *part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

fn error(rest: &[u8]) -> Result<Pattern, String> {
    let text = unescape(rest)?;
    Ok(match text.strip_suffix(b"...") {
        Some(prefix) => Pattern::ErrorPrefix(prefix.to_vec()),
        None => Pattern::Exact(Reply::Error(text)),
    })
}

fn element(lexer: &mut Lexer<'_>, depth: usize) -> Result<Pattern, String> {
    if depth > MAX_DEPTH {
        return Err(format!("nested deeper than {MAX_DEPTH}"));
    }
    lexer.skip_spaces();
    let order = if lexer.eat_word("unordered") {
        Order::Free
    } else if lexer.eat_word("pairs") {
        Order::FreePairs
    } else {
        Order::Given
    };
    lexer.skip_spaces();
    if let Some(collection) = collection(lexer, order, depth)? {
        return Ok(collection);
    }
    if order != Order::Given {
        return Err("only a collection can be unordered".into());
    }
    scalar(lexer)
}

fn collection(
    lexer: &mut Lexer<'_>,
    order: Order,
    depth: usize,
) -> Result<Option<Pattern>, String> {
    let kinds = [("[", Kind::Array), ("~[", Kind::Set), (">[", Kind::Push)];
    if let Some((_, kind)) = kinds.into_iter().find(|(open, _)| lexer.eat(open)) {
        let mut items = Vec::new();
        while more(lexer, "]", items.is_empty())? {
            items.push(element(lexer, depth + 1)?);
        }
        return Ok(Some(Pattern::Items { kind, order, items }));
    }
    if lexer.eat("{") {
        let mut pairs = Vec::new();
        while more(lexer, "}", pairs.is_empty())? {
            let key = element(lexer, depth + 1)?;
            lexer.skip_spaces();
            if !lexer.eat(":") {
                return Err("expected `:` after the key of a map".into());
            }
            pairs.push((key, element(lexer, depth + 1)?));
        }
        return Ok(Some(Pattern::Map { order, pairs }));
    }
    Ok(None)
}

/// Returns whether another element follows, and consumes the comma or the closing bracket.
fn more(lexer: &mut Lexer<'_>, close: &str, first: bool) -> Result<bool, String> {
    lexer.skip_spaces();
    if lexer.eat(close) {
        return Ok(false);
    }
    if first || lexer.eat(",") {
        return Ok(true);
    }
    Err(format!("expected `,` or `{close}`"))
}

fn scalar(lexer: &mut Lexer<'_>) -> Result<Pattern, String> {
    let words = [("nil-array", Reply::NilArray), ("nil", Reply::NilBulk), ("null", Reply::Null)];
    if let Some((_, reply)) = words.into_iter().find(|(word, _)| lexer.eat_word(word)) {
        return Ok(Pattern::Exact(reply));
    }
    if lexer.eat_word("glob") {
        lexer.skip_spaces();
        return Ok(Pattern::Glob(lexer.quoted()?));
    }
    let bare = |lexer: &mut Lexer<'_>| {
        lexer.take_until(|b| matches!(b, b' ' | b',' | b']' | b'}' | b':')).to_vec()
    };
    Ok(match lexer.rest() {
        [b'*', ..] => {
            lexer.eat("*");
            Pattern::Any
        }
        [b'"', ..] => Pattern::Exact(Reply::Bulk(lexer.quoted()?)),
        [b'+', ..] if lexer.eat("+") => Pattern::Exact(Reply::Simple(lexer.quoted()?)),
        [b'-', ..] if lexer.eat("-") => {
            let text = lexer.quoted()?;
            match text.strip_suffix(b"...") {
                Some(prefix) => Pattern::ErrorPrefix(prefix.to_vec()),
                None => Pattern::Exact(Reply::Error(text)),
            }
        }
        [b':', ..] if lexer.eat(":") => integer(text(&bare(lexer)))?,
        [b',', ..] if lexer.eat(",") => Pattern::Exact(Reply::Double(bare(lexer))),
        [b'(', ..] if lexer.eat("(") => Pattern::Exact(Reply::BigNumber(bare(lexer))),
        [b'#', ..] if lexer.eat("#t") => Pattern::Exact(Reply::Bool(true)),
        [b'#', ..] if lexer.eat("#f") => Pattern::Exact(Reply::Bool(false)),
        [b'=', ..] if lexer.eat("=") => match lexer.quoted()?.as_slice() {
            [a, b, c, b':', body @ ..] => {
                Pattern::Exact(Reply::Verbatim([*a, *b, *c], body.to_vec()))
            }
            _ => return Err("verbatim text begins with its format: =\"txt:..\"".into()),
        },
        other => return Err(format!("cannot read the reply \"{}\"", text(other))),
    })
}

fn integer(word: &str) -> Result<Pattern, String> {
    if word == "*" {
        return Ok(Pattern::IntBetween(i64::MIN, i64::MAX));
    }
    let parse = |text: &str| text.parse::<i64>().map_err(|_| format!("not an integer: {text}"));
    match word.split_once("..") {
        Some((low, high)) => Ok(Pattern::IntBetween(parse(low)?, parse(high)?)),
        None => Ok(Pattern::Exact(Reply::Int(parse(word)?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(pattern: &str, wire: &str) -> bool {
        let (reply, _) = crate::reply::parse(wire.as_bytes()).unwrap().unwrap();
        Pattern::parse(pattern).unwrap().matches(&reply)
    }

    #[test]
    fn what_is_printed_is_read_back() {
        let wire = "*7\r\n+OK\r\n-ERR \"x\"\r\n:-7\r\n$4\r\na]\r\n\r\n%1\r\n$1\r\nk\r\n,inf\r\n~1\r\n_\r\n$-1\r\n";
        let (reply, _) = crate::reply::parse(wire.as_bytes()).unwrap().unwrap();
        assert!(accepts(&reply.to_string(), wire), "{reply}");
        assert!(accepts("-ERR \\\"x\\\"", "-ERR \"x\"\r\n"));
        assert!(accepts(":-7", ":-7\r\n") && accepts(">[]", ">0\r\n"));
    }

    #[test]
    fn loose_patterns_accept_their_family_only() {
        assert!(accepts("*", ":1\r\n") && accepts(":*", ":1\r\n") && !accepts(":*", "+1\r\n"));
        assert!(accepts(":1..5", ":5\r\n") && !accepts(":1..5", ":6\r\n"));
        assert!(accepts("-ERR wr...", "-ERR wrong\r\n") && !accepts("-ERR wr", "-ERR wrong\r\n"));
        assert!(accepts("unordered [:1, :2]", "*2\r\n:2\r\n:1\r\n"));
        assert!(!accepts("unordered [:1, :2]", "*2\r\n:2\r\n:2\r\n"));
        assert!(accepts("pairs [:1, :2, :3, :4]", "*4\r\n:3\r\n:4\r\n:1\r\n:2\r\n"));
        assert!(!accepts("pairs [:1, :2, :3, :4]", "*4\r\n:2\r\n:1\r\n:3\r\n:4\r\n"));
        assert!(accepts("glob \"a*b*\"", "+axxb\r\n") && !accepts("glob \"a*b\"", "+axx\r\n"));
        assert!(!accepts("nil", "_\r\n") && !accepts("nil", "*-1\r\n"));
    }
}
