//! Keyspace notifications: which classes are on, and their letters.

/// A class of events; combined as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Classes(u32);

impl Classes {
    pub(crate) const KEYSPACE: Classes = Classes(1);
    pub(crate) const KEYEVENT: Classes = Classes(1 << 1);
    pub(crate) const GENERIC: Classes = Classes(1 << 2);
    pub(crate) const STRING: Classes = Classes(1 << 3);
    pub(crate) const LIST: Classes = Classes(1 << 4);
    pub(crate) const SET: Classes = Classes(1 << 5);
    pub(crate) const HASH: Classes = Classes(1 << 6);
    pub(crate) const ZSET: Classes = Classes(1 << 7);
    pub(crate) const EXPIRED: Classes = Classes(1 << 8);
    pub(crate) const EVICTED: Classes = Classes(1 << 9);
    pub(crate) const STREAM: Classes = Classes(1 << 10);
    pub(crate) const KEY_MISS: Classes = Classes(1 << 11);
    pub(crate) const MODULE: Classes = Classes(1 << 13);
    pub(crate) const NEW: Classes = Classes(1 << 14);

    /// What `A` stands for: all but misses and new keys.
    const ALL: Classes = Classes(0x7fc | Classes::MODULE.0);

    const LETTERS: [(char, Classes); 14] = [
        ('A', Classes::ALL),
        ('g', Classes::GENERIC),
        ('$', Classes::STRING),
        ('l', Classes::LIST),
        ('s', Classes::SET),
        ('h', Classes::HASH),
        ('z', Classes::ZSET),
        ('x', Classes::EXPIRED),
        ('e', Classes::EVICTED),
        ('t', Classes::STREAM),
        ('d', Classes::MODULE),
        ('n', Classes::NEW),
        ('K', Classes::KEYSPACE),
        ('E', Classes::KEYEVENT),
    ];

    pub(crate) fn contains(self, other: Classes) -> bool {
        self.0 & other.0 != 0
    }

    /// Reads `notify-keyspace-events`; `None` for an unknown letter.
    pub(crate) fn parse(text: &str) -> Option<Classes> {
        text.chars().try_fold(Classes::default(), |all, c| {
            let class = if c == 'm' {
                Classes::KEY_MISS
            } else {
                Classes::LETTERS.iter().find(|(letter, _)| *letter == c)?.1
            };
            Some(Classes(all.0 | class.0))
        })
    }
}

impl std::fmt::Display for Classes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = self.0 & Classes::ALL.0 == Classes::ALL.0;
        for (letter, class) in Classes::LETTERS {
            let shown = match letter {
                'A' => all,
                'K' | 'E' | 'n' => self.contains(class),
                _ => !all && self.contains(class),
            };
            if shown {
                write!(f, "{letter}")?;
            }
        }
        if self.contains(Classes::KEY_MISS) { write!(f, "m") } else { Ok(()) }
    }
}
