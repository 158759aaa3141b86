//! Parses `CLUSTER NODES`: what one node says about all of them.

use std::ops::RangeInclusive;

/// One line of `CLUSTER NODES`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The id, 40 hexadecimal digits.
    pub(crate) id: String,
    /// Such as `myself`, `master`, `slave`, `fail?`, `fail`, `handshake`.
    pub(crate) flags: Vec<String>,
    /// The id of its primary, if it is a replica.
    pub(crate) primary: Option<String>,
    /// The epoch under which it claims its slots; the higher one wins.
    pub(crate) epoch: String,
    /// The slots it serves.
    pub(crate) slots: Vec<RangeInclusive<u16>>,
}

impl Seen {
    pub(crate) fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    /// Returns `true` if it is suspected, known to be down, or not fully known yet.
    pub(crate) fn is_doubtful(&self) -> bool {
        ["fail?", "fail", "handshake", "noaddr"].iter().any(|flag| self.is(flag))
    }

    pub(crate) fn serves(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }
}

/// Parses the answer to `CLUSTER NODES`; malformed lines are left out.
pub(crate) fn read(text: &str) -> Vec<Seen> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Seen> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [id, _address, flags, primary, _ping, _pong, epoch, _link, slots @ ..] = words.as_slice()
    else {
        return None;
    };
    Some(Seen {
        id: (*id).to_owned(),
        flags: flags.split(',').map(str::to_owned).collect(),
        primary: (*primary != "-").then(|| (*primary).to_owned()),
        epoch: (*epoch).to_owned(),
        slots: slots.iter().filter_map(|word| range(word)).collect(),
    })
}

/// Parses `7` and `0-5460`, but not `[7->-id]`, a slot that is being moved.
fn range(word: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn slots_flags_and_primaries_are_read() {
        let seen = read(
            "aa 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-5460 9000 [5->-bb]\n\
             bb 127.0.0.1:3@4 slave,fail? aa 0 0 1 disconnected\n\n",
        );
        assert_eq!(seen[0].slots, [0..=5460, 9000..=9000]);
        assert!(seen[0].serves(9000) && seen[0].is("myself") && !seen[0].is_doubtful());
        assert_eq!(seen[1].primary.as_deref(), Some("aa"));
        assert!(seen[1].is_doubtful() && !seen[1].is("fail"));
    }
}
