//! LPOS: where in a list a value is.

use crate::{
    args,
    ctx::Ctx,
    error::{Done, Error},
    resp::Reply,
    value::list::List,
};

struct Options {
    /// Which match is the first to count; negative counts from the tail.
    rank: i64,
    /// How many matches to return as an array; `None` for one, not in an array; 0 for all.
    count: Option<usize>,
    /// How many elements to look at; 0 for all.
    max_len: usize,
}

impl Options {
    fn parse(options: &[&[u8]]) -> Result<Self, Error> {
        const RANK_ZERO: Error = Error::fixed(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
             or use negative to start from the end of the list",
        );
        let mut parsed = Self { rank: 1, count: None, max_len: 0 };
        for option in options.chunks(2) {
            let &[name, value] = option else { return Err(Error::SYNTAX) };
            if args::is(name, "rank") {
                parsed.rank = args::int(value)?;
                if parsed.rank == 0 {
                    return Err(RANK_ZERO);
                }
            } else if args::is(name, "count") {
                let refusal = Error::fixed("ERR COUNT can't be negative");
                parsed.count = Some(args::count_or(value, refusal)?);
            } else if args::is(name, "maxlen") {
                let refusal = Error::fixed("ERR MAXLEN can't be negative");
                parsed.max_len = args::count_or(value, refusal)?;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(parsed)
    }

    /// Gives the matching indices among elements, in the order in which they are looked at.
    fn matches<E: AsRef<[u8]>>(
        &self,
        elements: impl Iterator<Item = E>,
        wanted: &[u8],
    ) -> impl Iterator<Item = usize> {
        let look_at = if self.max_len == 0 { usize::MAX } else { self.max_len };
        // Redis: the negative of the lowest rank is itself, so that nothing is skipped.
        let skip = self.rank.checked_abs().map_or(0, |rank| rank as usize - 1);
        let wanted_count = match self.count {
            None => 1,
            Some(0) => usize::MAX,
            Some(count) => count,
        };
        elements
            .take(look_at)
            .enumerate()
            .filter(move |(_, element)| element.as_ref() == wanted)
            .map(|(index, _)| index)
            .skip(skip)
            .take(wanted_count)
    }
}

pub(crate) fn lpos(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let wanted = args[2];
    let options = Options::parse(&args[3..])?;
    let Some(list) = cx.get::<List>(args[1])? else {
        if options.count.is_some() {
            out.array(0);
        } else {
            out.null();
        }
        return Ok(());
    };
    let found: Vec<usize> = if options.rank > 0 {
        options.matches(list.iter(), wanted).collect()
    } else {
        let last = list.len() - 1;
        options.matches(list.iter_rev(), wanted).map(|index| last - index).collect()
    };
    if options.count.is_some() {
        out.array(found.len());
        found.iter().for_each(|&index| out.count(index));
    } else {
        match found.first() {
            Some(&index) => out.count(index),
            None => out.null(),
        }
    }
    Ok(())
}
