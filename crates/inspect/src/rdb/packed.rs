//! Counts the entries of the packed encodings: listpack, ziplist, intset, zipmap.
//!
//! Each has its count in its first bytes; only counts that do not fit there need a walk.

use super::source::Count;

const UNKNOWN: u16 = u16::MAX;
const END: u8 = 0xff;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

/// Walks over all entries, if `bytes` is the whole collection.
fn walked(whole: Option<u32>, bytes: &[u8], walk: impl Fn(&[u8]) -> Option<u64>) -> Count {
    match whole {
        None => Count::Damaged,
        Some(whole) if (bytes.len() as u64) < u64::from(whole) => Count::NeedsAll,
        Some(_) => walk(bytes).map_or(Count::Damaged, Count::Entries),
    }
}

/// `u32 bytes, u16 entries, entries…, 0xff`
pub(super) fn listpack(bytes: &[u8]) -> Count {
    match u16_at(bytes, 4) {
        None => Count::Damaged,
        Some(UNKNOWN) => walked(u32_at(bytes, 0), bytes, walk_listpack),
        Some(entries) => Count::Entries(entries.into()),
    }
}

fn walk_listpack(bytes: &[u8]) -> Option<u64> {
    let (mut at, mut entries) = (6, 0);
    loop {
        let first = *bytes.get(at)?;
        let length = match first {
            END => return Some(entries),
            0..=0x7f => 1,
            0x80..=0xbf => 1 + usize::from(first & 0x3f),
            0xc0..=0xdf => 2,
            0xe0..=0xef => 2 + (usize::from(first & 0x0f) << 8 | usize::from(*bytes.get(at + 1)?)),
            0xf0 => 5 + u32_at(bytes, at + 1)? as usize,
            0xf1 => 3,
            0xf2 => 4,
            0xf3 => 5,
            0xf4 => 9,
            _ => return None,
        };
        // The entry is followed by its length once more, seven bits per byte.
        let back = match length {
            0..128 => 1,
            128..16_384 => 2,
            16_384..2_097_152 => 3,
            2_097_152..268_435_456 => 4,
            _ => 5,
        };
        at = at.checked_add(length)?.checked_add(back)?;
        entries += 1;
    }
}

/// `u32 bytes, u32 tail, u16 entries, entries…, 0xff`
pub(super) fn ziplist(bytes: &[u8]) -> Count {
    match u16_at(bytes, 8) {
        None => Count::Damaged,
        Some(UNKNOWN) => walked(u32_at(bytes, 0), bytes, walk_ziplist),
        Some(entries) => Count::Entries(entries.into()),
    }
}

fn walk_ziplist(bytes: &[u8]) -> Option<u64> {
    let (mut at, mut entries) = (10, 0);
    loop {
        match *bytes.get(at)? {
            END => return Some(entries),
            0xfe => at += 5,
            _ => at += 1,
        }
        let first = *bytes.get(at)?;
        at += match first {
            0..=0x3f => 1 + usize::from(first),
            0x40..=0x7f => 2 + (usize::from(first & 0x3f) << 8 | usize::from(*bytes.get(at + 1)?)),
            0x80..=0xbf => {
                5 + u32::from_be_bytes(bytes.get(at + 1..at + 5)?.try_into().ok()?) as usize
            }
            0xc0 => 3,
            0xd0 => 5,
            0xe0 => 9,
            0xf0 => 4,
            0xfe => 2,
            0xf1..=0xfd => 1,
            _ => return None,
        };
        entries += 1;
    }
}

/// `u32 width, u32 members, members…`
pub(super) fn intset(bytes: &[u8]) -> Count {
    u32_at(bytes, 4).map_or(Count::Damaged, |members| Count::Entries(members.into()))
}

/// `u8 pairs, (length, key, length, free, value, unused)…, 0xff`; pairs.
pub(super) fn zipmap(bytes: &[u8]) -> Count {
    match bytes.first() {
        None => Count::Damaged,
        Some(pairs @ 0..=253) => Count::Entries(u64::from(*pairs)),
        // The total length is not stored: sixteen bytes cannot hold this many pairs.
        Some(_) if bytes.len() <= 16 => Count::NeedsAll,
        Some(_) => walk_zipmap(bytes).map_or(Count::Damaged, Count::Entries),
    }
}

fn walk_zipmap(bytes: &[u8]) -> Option<u64> {
    let length = |at: usize| match *bytes.get(at)? {
        254 => Some((5, u32_at(bytes, at + 1)? as usize)),
        255 => None,
        short => Some((1, usize::from(short))),
    };
    let (mut at, mut pairs) = (1usize, 0);
    while *bytes.get(at)? != END {
        let (head, key) = length(at)?;
        at = at.checked_add(head)?.checked_add(key)?;
        let (head, value) = length(at)?;
        let free = usize::from(*bytes.get(at + head)?);
        at = at.checked_add(head + 1)?.checked_add(value)?.checked_add(free)?;
        pairs += 1;
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stand_in_the_head_or_are_walked_for() {
        // Two entries: 1, and "ab".
        let mut pack = vec![12, 0, 0, 0, 2, 0, 0x01, 1, 0x82, b'a', b'b', 3, END];
        pack[0] = pack.len() as u8;
        assert_eq!(listpack(&pack), Count::Entries(2));
        (pack[4], pack[5]) = (0xff, 0xff);
        assert_eq!(listpack(&pack), Count::Entries(2));
        assert_eq!(listpack(&pack[..8]), Count::NeedsAll);
        assert_eq!(listpack(&pack[..3]), Count::Damaged);
        let mut list = vec![15, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 2, b'a', b'b', END];
        assert_eq!(ziplist(&list), Count::Entries(1));
        list[11] = 0xff;
        assert_eq!(ziplist(&list), Count::Damaged);
        assert_eq!(intset(&[2, 0, 0, 0, 3, 0, 0, 0]), Count::Entries(3));
        assert_eq!(zipmap(&[2, 1, b'k']), Count::Entries(2));
        let pair = [1, b'k', 2, 1, b'v', b'w', 0];
        let long: Vec<u8> = [254].into_iter().chain(pair.repeat(300)).chain([END]).collect();
        assert_eq!(zipmap(&long), Count::Entries(300));
        assert_eq!(zipmap(&long[..16]), Count::NeedsAll);
    }
}
