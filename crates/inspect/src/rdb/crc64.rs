//! The checksum at the end of an RDB file: CRC-64 with Jones' polynomial, reflected, initial value
//! and final XOR zero.
//!
//! It takes eight bytes per step with eight tables, because it covers every byte of the file.

const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// Continues a checksum with these bytes.
pub(super) fn update(mut crc: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mixed = crc ^ u64::from_le_bytes(word.try_into().expect("chunks of eight"));
        crc = 0;
        for (index, byte) in mixed.to_le_bytes().into_iter().enumerate() {
            crc ^= TABLES[7 - index][usize::from(byte)];
        }
    }
    for &byte in words.remainder() {
        crc = (crc >> 8) ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::update;

    #[test]
    fn it_is_the_one_that_redis_uses() {
        assert_eq!(update(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        let text: Vec<u8> = (0..1_000u32).map(|i| (i * 31) as u8).collect();
        let by_parts = text.chunks(7).fold(0, update);
        assert_eq!(by_parts, update(0, &text));
    }
}
