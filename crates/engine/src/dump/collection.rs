//! Lists, sets, hashes and sorted sets as commands of bounded length.

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
