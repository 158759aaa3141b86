//! Computes which of the 16,384 slots of a Cluster a key belongs to.

/// Number of slots in a Cluster.
pub const SLOTS: usize = 16_384;

/// Returns the slot of a key.
///
/// If there is a non-empty hash tag between the first `{` and the next `}`, only the tag is hashed.
pub fn slot(key: &[u8]) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(hashed(key)) % SLOTS as u16
}

fn hashed(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let tail = &key[open + 1..];
    match tail.iter().position(|&byte| byte == b'}') {
        Some(length) if length > 0 => &tail[..length],
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_servers() {
        // From CLUSTER KEYSLOT of redis-server 7.0.
        for (key, expected) in
            [("foo", 12182), ("{foo}bar", 12182), ("foo{}", 5542), ("123456789", 12739), ("", 0)]
        {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }
}
