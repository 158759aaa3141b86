//! SORT: the elements of a list, set or sorted set, ordered by themselves or by other keys.
//!
//! `BY weight_*` looks up a weight for each element and `GET object_*->field` replaces elements by
//! what other keys hold. STORE is logged as the resulting list, not as the request, because ties
//! and sets have no order that another process would reproduce.

use std::cmp::Ordering;
use std::ops::Range;

use crate::args::int;
use crate::ctx::{Caller, Ctx};
use crate::error::{Done, Error};
use crate::keyspace::{Entry, Str};
use crate::notify::Classes;
use crate::number::strtod;
use crate::resp::Reply;
use crate::value::list::{ChunkLimit, End, List};
use crate::value::zset::{End as RankEnd, ZSet};
use crate::value::{Kind, Value};

const NOT_A_WEIGHT: Error = Error::fixed("ERR One or more scores can't be converted into double");

/// SORT key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC|DESC] [ALPHA] [STORE key]
pub(super) fn sort(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let request = Request::parse(&args[2..], Mode::MayStore)?;
    run(cx, args[1], request, out)
}

/// SORT_RO: SORT without STORE.
pub(super) fn sort_ro(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let request = Request::parse(&args[2..], Mode::ReadOnly)?;
    run(cx, args[1], request, out)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    MayStore,
    ReadOnly,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Ascending,
    Descending,
}

/// What elements are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order<'a> {
    /// Left as they come: BY names a pattern without a star.
    Native,
    Numeric {
        by: Option<&'a [u8]>,
    },
    Text {
        by: Option<&'a [u8]>,
    },
}

struct Request<'a> {
    direction: Direction,
    order: Order<'a>,
    offset: i64,
    /// Negative means all.
    count: i64,
    gets: Vec<&'a [u8]>,
    store: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    fn parse(mut words: &[&'a [u8]], mode: Mode) -> Result<Self, Error> {
        let mut direction = Direction::Ascending;
        let (mut alpha, mut native, mut by) = (false, false, None);
        let (mut offset, mut count) = (0, -1);
        let (mut gets, mut store) = (Vec::new(), None);
        while let [name, rest @ ..] = words {
            let name = name.to_ascii_lowercase();
            words = match (name.as_slice(), rest) {
                (b"asc", rest) => {
                    direction = Direction::Ascending;
                    rest
                }
                (b"desc", rest) => {
                    direction = Direction::Descending;
                    rest
                }
                (b"alpha", rest) => {
                    alpha = true;
                    rest
                }
                (b"limit", [first, second, rest @ ..]) => {
                    offset = int(first)?;
                    count = int(second)?;
                    rest
                }
                (b"store", [key, rest @ ..]) if mode == Mode::MayStore => {
                    store = Some(*key);
                    rest
                }
                (b"by", [pattern, rest @ ..]) => {
                    by = Some(*pattern);
                    // Redis: once a constant pattern was given, a later one does not undo it.
                    native |= !pattern.contains(&b'*');
                    rest
                }
                (b"get", [pattern, rest @ ..]) => {
                    gets.push(*pattern);
                    rest
                }
                _ => return Err(Error::SYNTAX),
            };
        }
        let order = match (native, alpha) {
            (true, _) => Order::Native,
            (false, true) => Order::Text { by },
            (false, false) => Order::Numeric { by },
        };
        Ok(Self { direction, order, offset, count, gets, store })
    }

    /// Which of `total` elements are wanted.
    fn window(&self, total: usize) -> Range<usize> {
        let clamp = |index: i64| usize::try_from(index).unwrap_or(usize::MAX).min(total);
        let start = clamp(self.offset.max(0));
        let count = if self.count < 0 { total } else { clamp(self.count) };
        start..start.saturating_add(count).min(total)
    }
}

fn run(cx: &mut Ctx<'_>, key: &[u8], mut request: Request<'_>, out: &mut Reply) -> Done {
    // Redis: a sorted set that is sorted stays in its large form afterwards.
    let seed = cx.seed();
    if let Ok(Some(mut set)) = cx.edit::<ZSet>(key) {
        set.make_large(seed);
    }
    let found = match cx.read(key).map(Entry::value) {
        None => Found { elements: Vec::new(), is_set: false },
        Some(value) => Found::load(value, &request).ok_or(Error::WRONG_TYPE)?,
    };
    // A set is unordered; if the result is stored or used by a script, it is sorted.
    let must_be_stable = request.store.is_some() || cx.caller == Caller::Script;
    if found.is_set && request.order == Order::Native && must_be_stable {
        request.order = Order::Text { by: None };
    }
    let window = request.window(found.elements.len());
    let mut elements = order(cx, found.elements, &request)?;
    elements.truncate(window.end);
    elements.drain(..window.start);
    match request.store {
        None => {
            answer(cx, &elements, &request.gets, out);
            Ok(())
        }
        Some(target) => {
            store(cx, target, elements, &request.gets, out);
            Ok(())
        }
    }
}

/// The elements to sort.
struct Found {
    elements: Vec<Vec<u8>>,
    is_set: bool,
}

impl Found {
    /// Copies the elements out; in native order they come in the wanted direction already.
    fn load(value: &Value, request: &Request<'_>) -> Option<Self> {
        let backwards =
            request.order == Order::Native && request.direction == Direction::Descending;
        let elements = match value {
            Value::List(list) if backwards => list.iter_rev().map(|item| item.to_vec()).collect(),
            Value::List(list) => list.iter().map(|item| item.to_vec()).collect(),
            Value::Set(set) => set.iter().map(|item| item.to_vec()).collect(),
            Value::ZSet(zset) => {
                let end = if backwards { RankEnd::Max } else { RankEnd::Min };
                zset.range(0..zset.len(), end).map(|(member, _)| member.to_vec()).collect()
            }
            _ => return None,
        };
        Some(Self { elements, is_set: matches!(value, Value::Set(_)) })
    }
}

fn order(
    cx: &mut Ctx<'_>,
    elements: Vec<Vec<u8>>,
    request: &Request<'_>,
) -> Result<Vec<Vec<u8>>, Error> {
    let descending = request.direction == Direction::Descending;
    let directed = |ordering: Ordering| if descending { ordering.reverse() } else { ordering };
    // Redis: text that is only answered is compared by C's `strcoll`, which ends at a NUL.
    let seen = if request.store.is_some() { whole } else { until_nul };
    match request.order {
        Order::Native => Ok(elements),
        Order::Text { by: None } => {
            let mut elements = elements;
            elements.sort_by(|left, right| directed(seen(left).cmp(seen(right))));
            Ok(elements)
        }
        Order::Text { by: Some(pattern) } => {
            // An element without a weight comes first.
            let weigh = |element: Vec<u8>| (look_up(cx, pattern, &element), element);
            let mut weighed: Vec<_> = elements.into_iter().map(weigh).collect();
            weighed.sort_by(|(left, _), (right, _)| {
                directed(left.as_deref().map(seen).cmp(&right.as_deref().map(seen)))
            });
            Ok(weighed.into_iter().map(|(_, element)| element).collect())
        }
        Order::Numeric { by } => {
            let weigh = |element: Vec<u8>| {
                let score = match by {
                    None => score(&element),
                    Some(pattern) => {
                        look_up(cx, pattern, &element).map_or(Some(0.0), |weight| score(&weight))
                    }
                };
                score.map(|score| (score, element))
            };
            let weighed: Option<Vec<(f64, Vec<u8>)>> = elements.into_iter().map(weigh).collect();
            let mut weighed = weighed.ok_or(NOT_A_WEIGHT)?;
            weighed.sort_by(|(left, a), (right, b)| {
                // Never NaN, and both zeros are one number.
                let by_score = left.partial_cmp(right).unwrap_or(Ordering::Equal);
                directed(by_score.then_with(|| a.cmp(b)))
            });
            Ok(weighed.into_iter().map(|(_, element)| element).collect())
        }
    }
}

/// All bytes of a string.
fn whole(text: &[u8]) -> &[u8] {
    text
}

/// The bytes that a C function sees of a string.
fn until_nul(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(0, text).unwrap_or(text.len())]
}

/// A weight as C's `strtod` reads it to the end of the string; `None` if it does not.
fn score(text: &[u8]) -> Option<f64> {
    let number = strtod(text);
    let ends = text.get(number.end).is_none_or(|&byte| byte == 0);
    (ends && !number.out_of_range && !number.value.is_nan()).then_some(number.value)
}

/// What a pattern stands for with an element put in: the element itself for `#`, the string under
/// the key where the star is replaced, or with `->field` a field of the hash there.
fn look_up(cx: &mut Ctx<'_>, pattern: &[u8], element: &[u8]) -> Option<Vec<u8>> {
    if pattern == b"#" {
        return Some(element.to_vec());
    }
    let star = memchr::memchr(b'*', pattern)?;
    let (prefix, suffix) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = memchr::memmem::find(suffix, b"->").filter(|at| at + 2 < suffix.len());
    let (suffix, field) = match arrow {
        Some(at) => (&suffix[..at], Some(&suffix[at + 2..])),
        None => (suffix, None),
    };
    let key = [prefix, element, suffix].concat();
    let entry = cx.read(&key)?;
    match (field, entry.value()) {
        (Some(field), Value::Hash(hash)) => hash.get(field).map(|value| value.to_vec()),
        (Some(_), _) => None,
        (None, _) => entry.str().map(Str::to_vec),
    }
}

fn answer(cx: &mut Ctx<'_>, elements: &[Vec<u8>], gets: &[&[u8]], out: &mut Reply) {
    out.array(elements.len() * gets.len().max(1));
    for element in elements {
        if gets.is_empty() {
            out.bulk(element);
        }
        for pattern in gets {
            out.bulk_or_null(look_up(cx, pattern, element).as_deref());
        }
    }
}

fn store(cx: &mut Ctx<'_>, target: &[u8], elements: Vec<Vec<u8>>, gets: &[&[u8]], out: &mut Reply) {
    let items: Vec<Vec<u8>> = if gets.is_empty() {
        elements
    } else {
        let pairs = elements.iter().flat_map(|element| gets.iter().map(move |get| (get, element)));
        pairs.map(|(get, element)| look_up(cx, get, element).unwrap_or_default()).collect()
    };
    if items.is_empty() {
        if cx.remove(target).is_some() {
            cx.wrote(target, Classes::GENERIC, "del");
            cx.rewrite(&[b"DEL", target]);
        }
        out.int(0);
        return;
    }
    let limit = ChunkLimit::from_config(cx.engine.settings.list_max_listpack_size);
    let mut list = List::new();
    for item in &items {
        list.push(End::Tail, item, limit);
    }
    cx.set_value(target, list.into_value());
    cx.touched(target);
    cx.notify(Classes::LIST, "sortstore", target);
    cx.dirty(items.len() as u64);
    cx.rewrite(&[b"DEL", target]);
    let pushed: Vec<&[u8]> =
        [b"RPUSH", target].into_iter().chain(items.iter().map(Vec::as_slice)).collect();
    cx.rewrite(&pushed);
    out.count(items.len());
}
