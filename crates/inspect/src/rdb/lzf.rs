//! LZF, the compression in RDB files: literal runs and references to earlier output.
//!
//! ```text
//! 000LLLLL <L+1 bytes>                 literals
//! LLLooooo oooooooo                    L+2 bytes from o+1 bytes back, L < 7
//! 111ooooo LLLLLLLL oooooooo           the same with 7+L
//! ```

/// Expands `input` into `out`, which is cleared first, up to `limit` bytes. Returns `None` if the
/// input is damaged.
pub(super) fn expand(input: &[u8], limit: usize, out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    let mut input = input.iter().copied();
    while out.len() < limit {
        let Some(control) = input.next() else { break };
        let short = usize::from(control >> 5);
        if short == 0 {
            for _ in 0..=control {
                out.push(input.next()?);
            }
            continue;
        }
        let length = if short == 7 { 7 + usize::from(input.next()?) } else { short } + 2;
        let back = (usize::from(control & 0x1f) << 8) + usize::from(input.next()?) + 1;
        let from = out.len().checked_sub(back)?;
        for index in from..from + length {
            out.push(out[index]);
        }
    }
    out.truncate(limit);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn runs_and_references_are_expanded_and_bounded() {
        let mut out = Vec::new();
        // "ab", then 5 bytes from 2 back, then 9 + 2 bytes from 1 back.
        let input = [1, b'a', b'b', 0b0110_0000, 1, 0b1110_0000, 2, 0];
        assert_eq!(expand(&input, 100, &mut out), Some(()));
        assert_eq!(out, b"abababaaaaaaaaaaaa");
        assert_eq!(expand(&input, 4, &mut out), Some(()));
        assert_eq!(out, b"abab");
        for damaged in [&[5u8, b'a'][..], &[0b0010_0000, 0], &[0b1110_0000]] {
            assert_eq!(expand(damaged, 100, &mut out), None);
        }
    }
}
