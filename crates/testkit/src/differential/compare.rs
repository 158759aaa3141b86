//! Compares two replies, apart from what no two servers can have in common.

use crate::reply::Reply;

/// Maximum distance between two clocks, in milliseconds or seconds: as long as a busy machine may
/// delay one of the servers, and less than the difference between the lifetimes that are drawn.
const CLOCK_SLACK: u64 = 60_000;

/// How the replies to one command are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    Exact,
    Unordered,
    Pairs,
    Near,
    Shape,
    Pick,
    Scan,
    ScanPairs,
}

impl Policy {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "exact" => Self::Exact,
            "unordered" => Self::Unordered,
            "pairs" => Self::Pairs,
            "near" => Self::Near,
            "shape" => Self::Shape,
            "pick" => Self::Pick,
            "scan" => Self::Scan,
            "scanpairs" => Self::ScanPairs,
            _ => return None,
        })
    }

    /// Returns `true` if the two replies are the same under this policy.
    pub(super) fn same(self, left: &Reply, right: &Reply) -> bool {
        if left == right {
            return true;
        }
        if left.is_error() || right.is_error() {
            return false;
        }
        match self {
            Self::Exact => false,
            Self::Unordered => sorted(left, 1) == sorted(right, 1),
            Self::Pairs => sorted(left, 2) == sorted(right, 2),
            Self::Near => near(left, right),
            // `picked` checks whether the elements exist.
            Self::Shape | Self::Pick => same_type(left, right),
            Self::Scan => scans(left, right, 1),
            Self::ScanPairs => scans(left, right, 2),
        }
    }
}

fn same_type(left: &Reply, right: &Reply) -> bool {
    std::mem::discriminant(left) == std::mem::discriminant(right)
}

/// Returns `true` if two random picks have the same length, and ours comes from what existed just
/// before.
pub(super) fn picked(redis: &Reply, ours: &Reply, there: &Reply) -> bool {
    let (mut theirs, mut mine, mut choices) = (Vec::new(), Vec::new(), Vec::new());
    flatten(redis, &mut theirs);
    flatten(ours, &mut mine);
    flatten(there, &mut choices);
    theirs.len() == mine.len() && mine.iter().all(|word| choices.contains(word))
}

/// Collects the strings in a reply, numbers as their text.
fn flatten<'a>(reply: &'a Reply, out: &mut Vec<&'a [u8]>) {
    if let Reply::Map(pairs) = reply {
        for (key, value) in pairs {
            flatten(key, out);
            flatten(value, out);
        }
    }
    out.extend(reply.as_bytes());
    for item in reply.items() {
        flatten(item, out);
    }
}

/// Returns a collection with its elements in groups of `size`, in a canonical order.
///
/// A script returns a collection wrapped in whatever its body builds, so inner ones are sorted too.
fn sorted(reply: &Reply, size: usize) -> Reply {
    let groups = |items: &[Reply]| {
        let inner: Vec<Reply> = items.iter().map(|item| sorted(item, size)).collect();
        let mut groups: Vec<Vec<Reply>> = inner.chunks(size).map(<[Reply]>::to_vec).collect();
        groups.sort();
        groups.concat()
    };
    match reply {
        Reply::Array(items) => Reply::Array(groups(items)),
        Reply::Set(items) => Reply::Set(groups(items)),
        Reply::Map(pairs) => {
            let mut pairs = pairs.clone();
            pairs.sort();
            Reply::Map(pairs)
        }
        other => other.clone(),
    }
}

/// Returns `true` if two replies are the same except for clock readings: an integer that is the
/// whole reply, and those that streams show among others.
fn near(left: &Reply, right: &Reply) -> bool {
    match (left, right) {
        (Reply::Int(a), Reply::Int(b)) => {
            // Special answers such as -1 and -2 are not clock readings.
            a == b || (*a >= 0 && *b >= 0 && a.abs_diff(*b) <= CLOCK_SLACK)
        }
        (Reply::Array(a), Reply::Array(b)) => {
            let same = |at: usize| near_if(is_clock(a, at), &a[at], &b[at]);
            a.len() == b.len() && (0..a.len()).all(same)
        }
        (Reply::Map(a), Reply::Map(b)) => {
            let same = |((k, v), (l, w)): (&(Reply, Reply), &(Reply, Reply))| {
                k == l && near_if(names_a_clock(k), v, w)
            };
            a.len() == b.len() && a.iter().zip(b).all(same)
        }
        _ => left == right,
    }
}

/// Like [`near`], but an integer that is not a clock reading must be equal.
fn near_if(is_clock: bool, left: &Reply, right: &Reply) -> bool {
    let plain = matches!(left, Reply::Int(_)) && !is_clock;
    if plain { left == right } else { near(left, right) }
}

/// Returns `true` if a value after this word is a time or a duration.
fn names_a_clock(word: &Reply) -> bool {
    matches!(word.as_bytes(), Some(b"idle" | b"seen-time"))
}

/// Returns `true` if the integer at this position of an array of XPENDING or XINFO is a time or a
/// duration.
fn is_clock(items: &[Reply], at: usize) -> bool {
    let text = |item: &Reply| item.as_bytes().is_some();
    match items {
        // id, consumer, idle time or time of delivery, number of deliveries
        [id, consumer, Reply::Int(_), Reply::Int(_)] if text(id) && text(consumer) => at == 2,
        // The same for one consumer.
        [id, Reply::Int(_), Reply::Int(_)] if text(id) => at == 1,
        _ => at > 0 && names_a_clock(&items[at - 1]),
    }
}

fn scans(left: &Reply, right: &Reply, size: usize) -> bool {
    match (left.items(), right.items()) {
        ([cursor, items], [other_cursor, other_items]) => {
            same_type(left, right)
                && cursor == other_cursor
                && sorted(items, size) == sorted(other_items, size)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::parse;

    fn same(policy: Policy, left: &str, right: &str) -> bool {
        let read = |wire: &str| parse(wire.as_bytes()).unwrap().unwrap().0;
        policy.same(&read(left), &read(right))
    }

    #[test]
    fn a_pick_must_come_from_what_is_there() {
        let read = |wire: &str| parse(wire.as_bytes()).unwrap().unwrap().0;
        let there = read("*2\r\n+a\r\n+b\r\n");
        let (a, c, two) = (read("*1\r\n+a\r\n"), read("*1\r\n+c\r\n"), read("*2\r\n+a\r\n+a\r\n"));
        assert!(picked(&a, &a, &there) && !picked(&a, &c, &there) && !picked(&a, &two, &there));
    }

    #[test]
    fn policies_forgive_only_what_they_name() {
        let (ab, ba) = ("*2\r\n+a\r\n+b\r\n", "*2\r\n+b\r\n+a\r\n");
        assert!(!same(Policy::Exact, ab, ba) && same(Policy::Unordered, ab, ba));
        assert!(!same(Policy::Pairs, ab, ba));
        assert!(!same(Policy::Unordered, ab, "*2\r\n+b\r\n+b\r\n"));
        assert!(!same(Policy::Unordered, ab, "~2\r\n+a\r\n+b\r\n"));
        assert!(same(Policy::Near, ":5000\r\n", ":5003\r\n"));
        assert!(
            !same(Policy::Near, ":-1\r\n", ":-2\r\n") && !same(Policy::Near, ":-1\r\n", ":1\r\n")
        );
        let pending = |idle: u32, count: u32| {
            format!("*1\r\n*4\r\n$3\r\n1-1\r\n$1\r\nc\r\n:{idle}\r\n:{count}\r\n")
        };
        assert!(same(Policy::Near, &pending(5, 1), &pending(9, 1)));
        assert!(!same(Policy::Near, &pending(5, 1), &pending(5, 2)));
        let idle = |pending: u32, idle: u32| {
            format!("%2\r\n+pending\r\n:{pending}\r\n+idle\r\n:{idle}\r\n")
        };
        assert!(same(Policy::Near, &idle(1, 0), &idle(1, 7)));
        assert!(!same(Policy::Near, &idle(1, 0), &idle(2, 0)));
        assert!(same(Policy::Shape, "$1\r\na\r\n", "$1\r\nb\r\n"));
        assert!(!same(Policy::Shape, "-ERR a\r\n", "-ERR b\r\n"));
        assert!(!same(Policy::Shape, "$-1\r\n", "$0\r\n\r\n"));
        assert!(same(
            Policy::Scan,
            "*2\r\n$1\r\n0\r\n*2\r\n+a\r\n+b\r\n",
            "*2\r\n$1\r\n0\r\n*2\r\n+b\r\n+a\r\n"
        ));
    }
}
