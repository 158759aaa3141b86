//! CRC16 and the hash slot of a key, as Redis Cluster computes them.
//!
//! The polynomial is 0x1021 from zero, most significant bit first, nothing reflected (XMODEM).

/// Hash slots of a cluster.
pub const SLOTS: u16 = 16384;

/// One entry for each value of the byte that is shifted out.
const TABLE: [u16; 256] = table();

/// The checksum of `data`.
pub fn crc16(data: &[u8]) -> u16 {
    data.iter().fold(0, |crc, &byte| crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

/// The slot of a key: of the part between the first `{` and the next `}` if that is not empty,
/// otherwise of the whole key.
pub fn key_slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOTS
}

/// The part of the key that decides its slot.
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = memchr::memchr(b'{', key) else { return key };
    match memchr::memchr(b'}', &key[open + 1..]) {
        None | Some(0) => key,
        Some(length) => &key[open + 1..open + 1 + length],
    }
}

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < table.len() {
        let mut crc = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_of_the_polynomial() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b""), 0);
    }

    #[test]
    fn slots_follow_hash_tags() {
        assert_eq!(key_slot(b"foo"), 12182);
        assert_eq!(key_slot(b"{user1000}.following"), key_slot(b"user1000"));
        assert_eq!(hash_tag(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(hash_tag(b"foo{{bar}}zap"), b"{bar");
        assert_eq!(hash_tag(b"foo{bar}{zap}"), b"bar");
        assert_eq!(hash_tag(b"foo{bar"), b"foo{bar");
    }
}
