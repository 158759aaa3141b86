//! Choosing distinct elements at random: SRANDMEMBER and HRANDFIELD with a count, ZRANDMEMBER alike.

use std::collections::HashSet;

use crate::{error::Error, rng::Rng};

/// Above this share of the whole, choosing from a list of all is cheaper than drawing and rejecting
/// repetitions.
const LIST_ALL_ABOVE: usize = 3;

/// The most elements that a negative count may ask for.
// Limit: Redis writes on until the client's buffer kills it; here the request is refused.
const MAX_REPEATED: u64 = 1 << 26;

/// How many elements to draw, repetitions allowed.
pub(super) fn repeated(count: i64) -> Result<usize, Error> {
    let count = count.unsigned_abs();
    if count > MAX_REPEATED {
        return Err(Error::fixed("ERR value is out of range"));
    }
    Ok(count as usize)
}

/// Shows `count` distinct elements out of `len` (more than `count`), each subset with the same
/// chance. `all` lists the elements, `draw` gives one at random, `name` tells them apart.
pub(super) fn distinct<E, A: Iterator<Item = E>>(
    (count, len): (usize, usize),
    rng: &mut Rng,
    all: impl FnOnce() -> A,
    mut draw: impl FnMut(&mut Rng) -> Option<E>,
    name: impl Fn(&E) -> &[u8],
    mut show: impl FnMut(E),
) {
    if count.saturating_mul(LIST_ALL_ABOVE) > len {
        let mut elements: Vec<E> = all().collect();
        for _ in 0..count.min(elements.len()) {
            show(elements.swap_remove(rng.index(elements.len())));
        }
        return;
    }
    let mut seen: HashSet<Box<[u8]>> = HashSet::with_capacity(count);
    while seen.len() < count {
        let Some(element) = draw(rng) else { return };
        if seen.insert(name(&element).into()) {
            show(element);
        }
    }
}
