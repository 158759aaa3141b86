//! Lua's patterns, matched without recursion.
//!
//! Lua's own matcher calls itself for every item of the pattern, so a pattern of some ten thousand
//! items overflows the C stack of the thread that runs the script, and the process with it. That
//! thread is often a caller's, with a small stack. This matcher keeps what it may have to come back
//! to on a list. Each item of the pattern has at most one entry there, so the list is never longer
//! than the pattern.
//!
//! A match can also take for ever: forty times `a?` has 2^40 ways. Every step is counted, and after
//! [`STEPS_PER_CHECK`] of them the host is asked whether to go on, which is how SCRIPT KILL arrives.
//!
//! What matches, what is captured and the texts of the complaints are those of Lua 5.1; a pattern
//! ends at its first zero byte, as there.

use super::super::api::Shared;
use super::super::fail;

/// How many steps of a match count as one look at the clock.
const STEPS_PER_CHECK: u64 = 1 << 16;
/// Captures of one pattern.
const MAX_CAPTURES: usize = 32;
const ESCAPE: u8 = b'%';

/// Why there is no answer.
pub(crate) enum Stop {
    /// The pattern is wrong: Lua's words.
    Pattern(&'static str),
    /// The host does not want the script to go on.
    Ended(mlua::Error),
}

impl Stop {
    /// The error that the script sees.
    pub(crate) fn into_error(self, lua: &mlua::Lua) -> mlua::Error {
        match self {
            Stop::Pattern(text) => fail::text(lua, text),
            Stop::Ended(error) => error,
        }
    }
}

/// How far a capture has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Unfinished,
    Position,
    Bytes(usize),
}

/// Something to go back to when the rest of the pattern does not match.
#[derive(Debug, Clone, Copy)]
enum Retry {
    /// An optional item matched; go on at `next` as if it had not.
    Without { at: usize, next: usize },
    /// A greedy item took more than `count` characters from `from` on; try `count`.
    Fewer { from: usize, count: usize, next: usize },
    /// A modest item may take the character at `at`, too.
    More { at: usize, item: usize, next: usize },
    /// Forget the capture that was opened last.
    Opened,
    /// Take back that this capture was closed.
    Closed(usize),
}

/// One pattern on one subject.
pub(crate) struct Matcher<'a> {
    src: &'a [u8],
    pattern: &'a [u8],
    anchored: bool,
    captures: [(usize, Extent); MAX_CAPTURES],
    level: usize,
    retries: Vec<Retry>,
    shared: &'a Shared,
    steps: u64,
}

impl<'a> Matcher<'a> {
    /// A matcher; `anchors` says whether a leading `^` ties the pattern to the start.
    pub(crate) fn new(src: &'a [u8], pattern: &'a [u8], anchors: bool, shared: &'a Shared) -> Self {
        let end = memchr::memchr(0, pattern).unwrap_or(pattern.len());
        let pattern = &pattern[..end];
        let anchored = anchors && pattern.first() == Some(&b'^');
        Matcher {
            src,
            pattern: if anchored { &pattern[1..] } else { pattern },
            anchored,
            captures: [(0, Extent::Unfinished); MAX_CAPTURES],
            level: 0,
            retries: Vec::new(),
            shared,
            steps: 0,
        }
    }

    /// The first match that starts at `from` or, without an anchor, behind it.
    pub(crate) fn search(&mut self, from: usize) -> Result<Option<(usize, usize)>, Stop> {
        let last = if self.anchored { from } else { self.src.len() };
        for start in from..=last {
            if let Some(end) = self.run(start)? {
                self.settle()?;
                return Ok(Some((start, end)));
            }
        }
        self.settle()?;
        Ok(None)
    }

    /// Whether the pattern is tied to the start of the subject.
    pub(crate) fn is_anchored(&self) -> bool {
        self.anchored
    }

    /// How many values a match gives: its captures, or the whole.
    pub(crate) fn values(&self) -> usize {
        self.level.max(1)
    }

    /// How many captures the last match made.
    pub(crate) fn captures(&self) -> usize {
        self.level
    }

    /// Where value `index` of the match `start..end` begins, and how far it goes.
    pub(crate) fn value(
        &self,
        index: usize,
        (start, end): (usize, usize),
    ) -> Result<(usize, Extent), Stop> {
        if index >= self.level {
            return if index == 0 {
                Ok((start, Extent::Bytes(end - start)))
            } else {
                Err(Stop::Pattern("invalid capture index"))
            };
        }
        match self.captures[index] {
            (_, Extent::Unfinished) => Err(Stop::Pattern("unfinished capture")),
            capture => Ok(capture),
        }
    }

    fn run(&mut self, start: usize) -> Result<Option<usize>, Stop> {
        self.level = 0;
        self.retries.clear();
        let mut place = Some((start, 0));
        while let Some((at, item)) = place {
            if let Some(end) = self.forward(at, item)? {
                return Ok(Some(end));
            }
            place = self.back()?;
        }
        Ok(None)
    }

    /// Goes on from an item of the pattern to its end, or to where nothing matches.
    fn forward(&mut self, mut at: usize, mut item: usize) -> Result<Option<usize>, Stop> {
        loop {
            self.step(1)?;
            let Some(&first) = self.pattern.get(item) else { return Ok(Some(at)) };
            let second = self.pattern.get(item + 1).copied();
            match (first, second) {
                (b'(', Some(b')')) => {
                    self.open(at, Extent::Position)?;
                    item += 2;
                }
                (b'(', _) => {
                    self.open(at, Extent::Unfinished)?;
                    item += 1;
                }
                (b')', _) => {
                    self.close(at)?;
                    item += 1;
                }
                (b'$', None) => return Ok((at == self.src.len()).then_some(at)),
                (ESCAPE, Some(b'b')) => match self.balance(at, item + 2)? {
                    Some(behind) => (at, item) = (behind, item + 4),
                    None => return Ok(None),
                },
                (ESCAPE, Some(b'f')) => match self.frontier(at, item + 2)? {
                    Some(next) => item = next,
                    None => return Ok(None),
                },
                (ESCAPE, Some(digit)) if digit.is_ascii_digit() => match self.again(at, digit)? {
                    Some(behind) => (at, item) = (behind, item + 2),
                    None => return Ok(None),
                },
                _ => match self.single(at, item)? {
                    Some(place) => (at, item) = place,
                    None => return Ok(None),
                },
            }
        }
    }

    /// A single character with what follows it: `?`, `*`, `+`, `-` or nothing.
    fn single(&mut self, at: usize, item: usize) -> Result<Option<(usize, usize)>, Stop> {
        let end = self.class_end(item)?;
        let next = end + 1;
        let matches = self.takes(at, item, end);
        match self.pattern.get(end) {
            Some(b'?') if matches => {
                self.retries.push(Retry::Without { at, next });
                Ok(Some((at + 1, next)))
            }
            Some(b'?') => Ok(Some((at, next))),
            Some(b'*') => self.greedy(at, item, end).map(Some),
            Some(b'+') if matches => self.greedy(at + 1, item, end).map(Some),
            Some(b'+') => Ok(None),
            Some(b'-') => {
                self.retries.push(Retry::More { at, item, next });
                Ok(Some((at, next)))
            }
            _ if matches => Ok(Some((at + 1, end))),
            _ => Ok(None),
        }
    }

    fn greedy(&mut self, from: usize, item: usize, end: usize) -> Result<(usize, usize), Stop> {
        let mut count = 0;
        while self.takes(from + count, item, end) {
            count += 1;
        }
        self.step(count as u64)?;
        if count > 0 {
            self.retries.push(Retry::Fewer { from, count: count - 1, next: end + 1 });
        }
        Ok((from + count, end + 1))
    }

    /// The next place to try, after undoing what led here.
    fn back(&mut self) -> Result<Option<(usize, usize)>, Stop> {
        while let Some(retry) = self.retries.pop() {
            self.step(1)?;
            match retry {
                Retry::Without { at, next } => return Ok(Some((at, next))),
                Retry::Fewer { from, count, next } => {
                    if count > 0 {
                        self.retries.push(Retry::Fewer { from, count: count - 1, next });
                    }
                    return Ok(Some((from + count, next)));
                }
                Retry::More { at, item, next } => {
                    if self.takes(at, item, next - 1) {
                        self.retries.push(Retry::More { at: at + 1, item, next });
                        return Ok(Some((at + 1, next)));
                    }
                }
                Retry::Opened => self.level -= 1,
                Retry::Closed(capture) => self.captures[capture].1 = Extent::Unfinished,
            }
        }
        Ok(None)
    }

    fn open(&mut self, at: usize, extent: Extent) -> Result<(), Stop> {
        let Some(capture) = self.captures.get_mut(self.level) else {
            return Err(Stop::Pattern("too many captures"));
        };
        *capture = (at, extent);
        self.level += 1;
        self.retries.push(Retry::Opened);
        Ok(())
    }

    fn close(&mut self, at: usize) -> Result<(), Stop> {
        let open = self.captures[..self.level]
            .iter()
            .rposition(|(_, extent)| *extent == Extent::Unfinished)
            .ok_or(Stop::Pattern("invalid pattern capture"))?;
        self.captures[open].1 = Extent::Bytes(at - self.captures[open].0);
        self.retries.push(Retry::Closed(open));
        Ok(())
    }

    /// `%b()`: what is between balanced characters.
    fn balance(&mut self, at: usize, pair: usize) -> Result<Option<usize>, Stop> {
        let (Some(&begin), Some(&end)) = (self.pattern.get(pair), self.pattern.get(pair + 1))
        else {
            return Err(Stop::Pattern("unbalanced pattern"));
        };
        if self.src.get(at) != Some(&begin) {
            return Ok(None);
        }
        let mut open = 1_usize;
        for (offset, &byte) in self.src[at + 1..].iter().enumerate() {
            if byte == end {
                open -= 1;
                if open == 0 {
                    self.step(offset as u64)?;
                    return Ok(Some(at + offset + 2));
                }
            } else if byte == begin {
                open += 1;
            }
        }
        self.step((self.src.len() - at) as u64)?;
        Ok(None)
    }

    /// `%f[set]`: where a character outside of the set is followed by one inside.
    fn frontier(&mut self, at: usize, set: usize) -> Result<Option<usize>, Stop> {
        if self.pattern.get(set) != Some(&b'[') {
            return Err(Stop::Pattern("missing '[' after '%f' in pattern"));
        }
        let end = self.class_end(set)?;
        let before = if at == 0 { 0 } else { self.src[at - 1] };
        let here = self.src.get(at).copied().unwrap_or(0);
        let is_frontier = !self.in_set(before, set, end - 1) && self.in_set(here, set, end - 1);
        Ok(is_frontier.then_some(end))
    }

    /// `%1`: what a capture holds, once more.
    fn again(&mut self, at: usize, digit: u8) -> Result<Option<usize>, Stop> {
        let capture = usize::from(digit).checked_sub(usize::from(b'1'));
        let (from, extent) = capture
            .filter(|index| *index < self.level)
            .map(|index| self.captures[index])
            .filter(|(_, extent)| *extent != Extent::Unfinished)
            .ok_or(Stop::Pattern("invalid capture index"))?;
        let Extent::Bytes(len) = extent else { return Ok(None) };
        self.step(len as u64 / 16)?;
        let same = self.src[at..].starts_with(&self.src[from..from + len]);
        Ok(same.then_some(at + len))
    }

    /// Where the single character that starts at `item` ends in the pattern.
    fn class_end(&self, item: usize) -> Result<usize, Stop> {
        let at = |index: usize| self.pattern.get(index).copied();
        match at(item) {
            Some(ESCAPE) if at(item + 1).is_none() => {
                Err(Stop::Pattern("malformed pattern (ends with '%')"))
            }
            Some(ESCAPE) => Ok(item + 2),
            Some(b'[') => {
                let mut end = item + 1;
                if at(end) == Some(b'^') {
                    end += 1;
                }
                loop {
                    match at(end) {
                        None => return Err(Stop::Pattern("malformed pattern (missing ']')")),
                        Some(ESCAPE) if at(end + 1).is_some() => end += 2,
                        Some(_) => end += 1,
                    }
                    if at(end) == Some(b']') {
                        return Ok(end + 1);
                    }
                }
            }
            _ => Ok(item + 1),
        }
    }

    /// Whether the character at `at` is one that `item..end` of the pattern stands for.
    fn takes(&self, at: usize, item: usize, end: usize) -> bool {
        let Some(&byte) = self.src.get(at) else { return false };
        match self.pattern[item] {
            b'.' => true,
            ESCAPE => in_class(byte, self.pattern[item + 1]),
            b'[' => self.in_set(byte, item, end - 1),
            literal => literal == byte,
        }
    }

    /// Whether a byte is in the set between `[` at `open` and `]` at `close`.
    fn in_set(&self, byte: u8, open: usize, close: usize) -> bool {
        let pattern = self.pattern;
        let mut at = open + 1;
        let wanted = pattern[at] != b'^';
        if !wanted {
            at += 1;
        }
        while at < close {
            if pattern[at] == ESCAPE {
                at += 1;
                if in_class(byte, pattern[at]) {
                    return wanted;
                }
            } else if pattern[at + 1] == b'-' && at + 2 < close {
                if (pattern[at]..=pattern[at + 2]).contains(&byte) {
                    return wanted;
                }
                at += 2;
            } else if pattern[at] == byte {
                return wanted;
            }
            at += 1;
        }
        !wanted
    }

    /// Counts work; now and then asks whether to go on.
    fn step(&mut self, steps: u64) -> Result<(), Stop> {
        self.steps += steps;
        if self.steps < STEPS_PER_CHECK { Ok(()) } else { self.settle() }
    }

    /// Adds the steps so far to those of the whole script.
    fn settle(&mut self) -> Result<(), Stop> {
        self.shared.spend(std::mem::take(&mut self.steps)).map_err(Stop::Ended)
    }
}

/// `%a` and the like: Lua's classes in the C locale.
fn in_class(byte: u8, class: u8) -> bool {
    let inside = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    inside != class.is_ascii_uppercase()
}
