//! Lists, sets, hashes and sorted sets as commands of bounded length: whole, or slice by slice.

use crate::effects::Effects;
use crate::number::format_f64;
use crate::value::hash::Hash;
use crate::value::list::List;
use crate::value::set::Set;
use crate::value::zset::ZSet;

/// Elements of one command, as Redis does it.
const AT_ONCE: usize = 64;

pub(super) fn dump_list(list: &List, db: u32, key: &[u8], out: &mut Effects) {
    let mut command = Command { name: b"RPUSH", args_each: 1, left: list.len(), db, key };
    list.iter().enumerate().for_each(|(index, item)| {
        command.begin(index, out);
        out.arg(&item);
    });
}

pub(super) fn dump_set(set: &Set, db: u32, key: &[u8], out: &mut Effects) {
    let mut command = Command { name: b"SADD", args_each: 1, left: set.len(), db, key };
    set.iter().enumerate().for_each(|(index, member)| {
        command.begin(index, out);
        out.arg(&member);
    });
}

pub(super) fn dump_hash(hash: &Hash, db: u32, key: &[u8], out: &mut Effects) {
    let mut command = Command { name: b"HSET", args_each: 2, left: hash.len(), db, key };
    hash.iter().enumerate().for_each(|(index, (field, value))| {
        command.begin(index, out);
        out.arg(&field);
        out.arg(&value);
    });
}

pub(super) fn dump_zset(zset: &ZSet, db: u32, key: &[u8], out: &mut Effects) {
    let mut command = Command { name: b"ZADD", args_each: 2, left: zset.len(), db, key };
    let mut score_text = Vec::new();
    zset.iter().enumerate().for_each(|(index, (member, score))| {
        command.begin(index, out);
        score_text.clear();
        format_f64(&mut score_text, score);
        out.arg(&score_text);
        out.arg(member);
    });
}

/// Dumps fields from a place on; returns where to go on, 0 at the end.
pub(super) fn hash_slice(hash: &Hash, from: u64, db: u32, key: &[u8], out: &mut Effects) -> u64 {
    let mut args: Vec<Vec<u8>> = Vec::with_capacity(2 * AT_ONCE);
    let next = hash.scan(from, AT_ONCE, |field, value| args.extend([field.into(), value.into()]));
    push_groups(b"HSET", 2, &args, db, key, out);
    next
}

/// Dumps members from a place on; returns where to go on, 0 at the end.
pub(super) fn set_slice(set: &Set, from: u64, db: u32, key: &[u8], out: &mut Effects) -> u64 {
    let mut args: Vec<Vec<u8>> = Vec::with_capacity(AT_ONCE);
    let next = set.scan(from, AT_ONCE, |member| args.push(member.into()));
    push_groups(b"SADD", 1, &args, db, key, out);
    next
}

/// Dumps members from a place in the index on; returns where to go on, 0 at the end.
pub(super) fn zset_slice(zset: &ZSet, from: u64, db: u32, key: &[u8], out: &mut Effects) -> u64 {
    let mut args: Vec<Vec<u8>> = Vec::with_capacity(2 * AT_ONCE);
    let next = zset.scan(from, AT_ONCE, |member, score| {
        args.extend([score_text(score), member.into()]);
    });
    push_groups(b"ZADD", 2, &args, db, key, out);
    next
}

/// Dumps elements from an index on; returns how many are dumped then.
pub(super) fn list_slice(
    list: &List,
    from: usize,
    db: u32,
    key: &[u8],
    out: &mut Effects,
) -> usize {
    let items: Vec<_> = list.iter_from(from).take(AT_ONCE).collect();
    push_groups(b"RPUSH", 1, &items, db, key, out);
    from + items.len()
}

fn push_groups<A: std::ops::Deref<Target = [u8]>>(
    name: &'static [u8],
    args_each: usize,
    args: &[A],
    db: u32,
    key: &[u8],
    out: &mut Effects,
) {
    for group in args.chunks(AT_ONCE * args_each) {
        out.begin(db, 2 + group.len());
        out.arg(name);
        out.arg(key);
        group.iter().for_each(|arg| out.arg(arg));
    }
}

/// A field as it is: set, or deleted.
pub(super) fn write_field(hash: &Hash, field: &[u8], db: u32, key: &[u8], out: &mut Effects) {
    match hash.get(field) {
        Some(value) => out.push(db, &[b"HSET", key, field, &value]),
        None => out.push(db, &[b"HDEL", key, field]),
    }
}

/// A member as it is: in the set, or not.
pub(super) fn write_member(set: &Set, member: &[u8], db: u32, key: &[u8], out: &mut Effects) {
    let name: &[u8] = if set.contains(member) { b"SADD" } else { b"SREM" };
    out.push(db, &[name, key, member]);
}

/// A member as it is: with its score, or not in the set.
pub(super) fn write_score(zset: &ZSet, member: &[u8], db: u32, key: &[u8], out: &mut Effects) {
    match zset.score(member) {
        Some(score) => out.push(db, &[b"ZADD", key, &score_text(score), member]),
        None => out.push(db, &[b"ZREM", key, member]),
    }
}

fn score_text(score: f64) -> Vec<u8> {
    let mut text = Vec::new();
    format_f64(&mut text, score);
    text
}

/// A command that is repeated for each group of elements.
struct Command<'a> {
    name: &'static [u8],
    args_each: usize,
    /// Elements that no command has room for yet.
    left: usize,
    db: u32,
    key: &'a [u8],
}

impl Command<'_> {
    /// Begins the next command if the element with this index is the first of its group.
    fn begin(&mut self, index: usize, out: &mut Effects) {
        if !index.is_multiple_of(AT_ONCE) {
            return;
        }
        let count = self.left.min(AT_ONCE);
        self.left -= count;
        out.begin(self.db, 2 + count * self.args_each);
        out.arg(self.name);
        out.arg(self.key);
    }
}
