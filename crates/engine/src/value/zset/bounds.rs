//! The ranges that commands name: by score and by bytes.
//!
//! Both answer two questions about an element: does it lie before the range (`misses`), and does
//! the range reach that far (`reaches`). Over a sorted set each holds for a prefix, so two binary
//! searches give the ranks.

/// A range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScoreRange {
    /// The low end.
    pub(crate) min: f64,
    /// Whether the low end itself is left out.
    pub(crate) min_open: bool,
    /// The high end.
    pub(crate) max: f64,
    /// Whether the high end itself is left out.
    pub(crate) max_open: bool,
}

impl ScoreRange {
    /// Whether a score lies before the range.
    pub(crate) fn misses(&self, score: f64) -> bool {
        score < self.min || (self.min_open && score == self.min)
    }

    /// Whether a score does not lie behind the range.
    pub(crate) fn reaches(&self, score: f64) -> bool {
        score < self.max || (!self.max_open && score == self.max)
    }
}

/// One end of a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LexBound<'a> {
    /// `-`: before every member.
    Min,
    /// `+`: behind every member.
    Max,
    /// `[bytes`: the member itself is in.
    Closed(&'a [u8]),
    /// `(bytes`: the member itself is out.
    Open(&'a [u8]),
}

impl<'a> LexBound<'a> {
    /// Reads one end as ZRANGEBYLEX writes it.
    pub(crate) fn parse(text: &'a [u8]) -> Option<Self> {
        match text {
            [b'+'] | [b'+', 0, ..] => Some(Self::Max),
            [b'-'] | [b'-', 0, ..] => Some(Self::Min),
            [b'(', bytes @ ..] => Some(Self::Open(bytes)),
            [b'[', bytes @ ..] => Some(Self::Closed(bytes)),
            _ => None,
        }
    }
}

/// A range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LexRange<'a> {
    /// The low end.
    pub(crate) min: LexBound<'a>,
    /// The high end.
    pub(crate) max: LexBound<'a>,
}

impl<'a> LexRange<'a> {
    /// Reads both ends as ZRANGEBYLEX writes them; `None` if one is malformed.
    pub(crate) fn parse(min: &'a [u8], max: &'a [u8]) -> Option<Self> {
        Some(Self { min: LexBound::parse(min)?, max: LexBound::parse(max)? })
    }

    /// Whether a member lies before the range.
    pub(crate) fn misses(&self, member: &[u8]) -> bool {
        match self.min {
            LexBound::Min => false,
            LexBound::Max => true,
            LexBound::Closed(bytes) => member < bytes,
            LexBound::Open(bytes) => member <= bytes,
        }
    }

    /// Whether a member does not lie behind the range.
    pub(crate) fn reaches(&self, member: &[u8]) -> bool {
        match self.max {
            LexBound::Min => false,
            LexBound::Max => true,
            LexBound::Closed(bytes) => member <= bytes,
            LexBound::Open(bytes) => member < bytes,
        }
    }
}
