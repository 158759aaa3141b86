//! Lifetimes: setting, reading, removing.

use crate::args::{self, is};
use crate::ctx::{Caller, Ctx};
use crate::error::{Done, Error, printable};
use crate::keyspace::{Entry, NEVER};
use crate::notify::Classes;
use crate::resp::Reply;

/// How a lifetime is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Millis,
    AtSeconds,
    AtMillis,
}

impl Unit {
    /// The unit that an option of SET or GETEX names.
    pub(super) fn of_option(word: &[u8]) -> Option<Unit> {
        [
            ("ex", Unit::Seconds),
            ("px", Unit::Millis),
            ("exat", Unit::AtSeconds),
            ("pxat", Unit::AtMillis),
        ]
        .into_iter()
        .find(|(name, _)| is(word, name))
        .map(|(_, unit)| unit)
    }

    /// Whether an option in this unit may follow the one before.
    ///
    /// Redis: the same option may be given again, and the last one counts; two different ones are an
    /// error.
    pub(super) fn may_replace(self, before: Option<&Lifetime>) -> bool {
        before.is_none_or(|before| before.unit == self)
    }

    fn is_seconds(self) -> bool {
        matches!(self, Unit::Seconds | Unit::AtSeconds)
    }

    fn is_relative(self) -> bool {
        matches!(self, Unit::Seconds | Unit::Millis)
    }
}

/// A lifetime as an option gave it.
pub(super) struct Lifetime {
    pub(super) unit: Unit,
    pub(super) text: Vec<u8>,
}

impl Lifetime {
    /// When it ends, in Unix milliseconds; must lie ahead of zero.
    pub(super) fn deadline(&self, command: &str, now: i64) -> Result<i64, Error> {
        let n = args::int(&self.text)?;
        let invalid = || Error::new(format!("ERR invalid expire time in '{command}' command"));
        if n <= 0 {
            return Err(invalid());
        }
        deadline(n, self.unit, now).ok_or_else(invalid)
    }
}

fn deadline(n: i64, unit: Unit, now: i64) -> Option<i64> {
    let millis = if unit.is_seconds() { n.checked_mul(1000)? } else { n };
    let at = if unit.is_relative() { millis.checked_add(now)? } else { millis };
    // NEVER is not a time.
    Some(at.min(NEVER - 1))
}

/// Which keys may get a new lifetime.
#[derive(Default)]
struct Condition {
    if_none: bool,
    if_some: bool,
    if_longer: bool,
    if_shorter: bool,
}

impl Condition {
    fn parse(words: &[&[u8]]) -> Result<Condition, Error> {
        let mut c = Condition::default();
        for word in words {
            if is(word, "nx") {
                c.if_none = true;
            } else if is(word, "xx") {
                c.if_some = true;
            } else if is(word, "gt") {
                c.if_longer = true;
            } else if is(word, "lt") {
                c.if_shorter = true;
            } else {
                let word = printable(word, usize::MAX);
                return Err(Error::new(format!("ERR Unsupported option {word}")));
            }
        }
        if c.if_none && (c.if_some || c.if_longer || c.if_shorter) {
            return Err(Error::fixed(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if c.if_longer && c.if_shorter {
            return Err(Error::fixed("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(c)
    }

    fn holds(&self, current: Option<i64>, new: i64) -> bool {
        match current {
            None => !self.if_some && !self.if_longer,
            Some(current) => {
                let too_short = self.if_longer && new <= current;
                let too_long = self.if_shorter && new >= current;
                !(self.if_none || too_short || too_long)
            }
        }
    }
}

fn set_lifetime(cx: &mut Ctx<'_>, a: &[&[u8]], unit: Unit, out: &mut Reply) -> Done {
    let condition = Condition::parse(&a[3..])?;
    let n = args::int(a[2])?;
    let invalid =
        || Error::new(format!("ERR invalid expire time in '{}' command", cx.command.name));
    let at = deadline(n, unit, cx.now).ok_or_else(invalid)?;
    let now = cx.now;
    let Some(entry) = cx.peek(a[1]) else {
        out.int(0);
        return Ok(());
    };
    if !condition.holds(entry.expires_at(), at) {
        out.int(0);
        return Ok(());
    }
    if at <= now && cx.caller != Caller::Replay {
        cx.remove(a[1]);
        cx.wrote(a[1], Classes::GENERIC, "del");
        cx.rewrite(&[b"DEL", a[1]]);
    } else {
        cx.db().set_deadline(a[1], at);
        cx.wrote(a[1], Classes::GENERIC, "expire");
        let text = at.to_string();
        cx.rewrite(&[b"PEXPIREAT", a[1], text.as_bytes()]);
    }
    out.int(1);
    Ok(())
}

pub(super) fn expire(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    set_lifetime(cx, a, Unit::Seconds, out)
}

pub(super) fn pexpire(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    set_lifetime(cx, a, Unit::Millis, out)
}

pub(super) fn expireat(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    set_lifetime(cx, a, Unit::AtSeconds, out)
}

pub(super) fn pexpireat(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    set_lifetime(cx, a, Unit::AtMillis, out)
}

/// Answers what `shown` makes of the deadline; -2 for no key, -1 for no lifetime.
fn ask(cx: &mut Ctx<'_>, key: &[u8], out: &mut Reply, shown: impl FnOnce(i64, i64) -> i64) -> Done {
    let now = cx.now;
    out.int(match cx.peek(key).map(Entry::expires_at) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => shown(at, now),
    });
    Ok(())
}

pub(super) fn ttl(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    ask(cx, a[1], out, |at, now| ((at - now).max(0) + 500) / 1000)
}

pub(super) fn pttl(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    ask(cx, a[1], out, |at, now| (at - now).max(0))
}

pub(super) fn expiretime(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    // Rounded without adding first: the greatest time leaves no room for an addition.
    ask(cx, a[1], out, |at, _| at / 1000 + i64::from(at % 1000 >= 500))
}

pub(super) fn pexpiretime(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    ask(cx, a[1], out, |at, _| at)
}

pub(super) fn persist(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let timed = cx.peek(a[1]).is_some_and(|entry| entry.expires_at().is_some());
    if timed {
        cx.db().set_deadline(a[1], NEVER);
        cx.wrote(a[1], Classes::GENERIC, "persist");
    }
    out.int(i64::from(timed));
    Ok(())
}
