//! The packed stream against a plain list, under random commands.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::log::NODE_SLOT_BYTES;
use super::node::Pairs;
use super::*;

type Texts = Vec<(Vec<u8>, Vec<u8>)>;

/// What a stream must show, kept the simple way. Nodes are lists of ids with a "live" mark.
#[derive(Default)]
struct Model {
    live: BTreeMap<StreamId, Texts>,
    nodes: Vec<ModelNode>,
    last: StreamId,
    max_deleted: StreamId,
}

/// A node: its entries, how many were ever put in, and the last of those.
#[derive(Default)]
struct ModelNode {
    entries: Vec<(StreamId, bool)>,
    stored: usize,
    last: StreamId,
}

impl Model {
    fn append(&mut self, id: StreamId, pairs: Texts, max_entries: usize) {
        if self.nodes.last().is_none_or(|node| node.stored >= max_entries) {
            self.nodes.push(ModelNode::default());
        }
        let node = self.nodes.last_mut().expect("just pushed");
        node.entries.push((id, true));
        node.stored += 1;
        node.last = id;
        self.live.insert(id, pairs);
        self.last = id;
    }

    fn delete(&mut self, id: StreamId) -> bool {
        if self.live.remove(&id).is_none() {
            return false;
        }
        self.max_deleted = self.max_deleted.max(id);
        self.nodes.retain_mut(|node| {
            let Some(entry) = node.entries.iter_mut().find(|(other, _)| *other == id) else {
                return true;
            };
            entry.1 = false;
            node.entries.iter().any(|(_, live)| *live)
        });
        true
    }

    fn set_last(&mut self, last: StreamId) {
        self.last = last;
        self.nodes.retain_mut(|node| {
            node.entries.retain(|(id, _)| *id <= last);
            !node.entries.is_empty()
        });
    }

    fn trim(&mut self, keep: Keep, precision: Precision) -> u64 {
        let before = self.live.len();
        while let Some(node) = self.nodes.first_mut() {
            let live = node.entries.iter().filter(|(_, live)| *live).count();
            let removed = before - self.live.len();
            let whole = match keep {
                Keep::MaxLen(max) if self.live.len() as u64 <= max => break,
                Keep::MaxLen(max) => (self.live.len() - live) as u64 >= max,
                Keep::MinId(min) => node.last < min,
            };
            if let Precision::Approximate { limit } = precision
                && limit != 0
                && (removed + live) as u64 > limit
            {
                break;
            }
            if whole {
                for (id, _) in self.nodes.remove(0).entries {
                    self.live.remove(&id);
                }
                continue;
            }
            if precision == Precision::Exact {
                for (id, live) in &mut node.entries {
                    let stop = match keep {
                        Keep::MaxLen(max) => self.live.len() as u64 <= max,
                        Keep::MinId(min) => *id >= min,
                    };
                    if stop {
                        break;
                    }
                    *live = false;
                    self.live.remove(id);
                }
            }
            break;
        }
        (before - self.live.len()) as u64
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append(u64, u64, Texts),
    Delete(usize),
    Trim(Keep, Precision),
    /// Puts the last id somewhere between the last live entry and where it is.
    Lower(u64),
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"field".to_vec()),
        Just(b"7".to_vec()),
        prop::collection::vec(any::<u8>(), 0..200),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let same = text().prop_map(|value| vec![(b"field".to_vec(), value)]);
    let pairs = prop_oneof![3 => same, 1 => prop::collection::vec((text(), text()), 1..5)];
    let keep = prop_oneof![
        (0u64..60).prop_map(Keep::MaxLen),
        (0u64..40, 0u64..3).prop_map(|(ms, seq)| Keep::MinId(StreamId::new(ms, seq))),
    ];
    let precision = prop_oneof![
        Just(Precision::Exact),
        (0u64..20).prop_map(|limit| Precision::Approximate { limit }),
    ];
    prop_oneof![
        8 => (0u64..2, 0u64..3, pairs).prop_map(|(ms, seq, pairs)| Step::Append(ms, seq, pairs)),
        4 => any::<usize>().prop_map(Step::Delete),
        1 => (keep, precision).prop_map(|(keep, precision)| Step::Trim(keep, precision)),
        1 => (0u64..3).prop_map(Step::Lower),
    ]
}

fn borrowed(pairs: &Texts) -> impl Pairs<'_> {
    pairs.iter().map(|(field, value)| (&field[..], &value[..]))
}

fn owned(entry: &Entry<'_>) -> (StreamId, Texts) {
    let pairs = entry.fields.clone().map(|(field, value)| (field.to_vec(), value.to_vec()));
    (entry.id, pairs.collect())
}

fn assert_same(log: &Log, model: &Model) {
    let expected: Vec<_> = model.live.iter().map(|(id, pairs)| (*id, pairs.clone())).collect();
    let forward: Vec<_> = log.range(StreamId::MIN, StreamId::MAX).map(|e| owned(&e)).collect();
    assert_eq!(forward, expected);
    let mut back: Vec<_> = log.range_rev(StreamId::MIN, StreamId::MAX).map(|e| owned(&e)).collect();
    back.reverse();
    assert_eq!(back, expected);
    assert_eq!(log.len(), expected.len() as u64);
    assert_eq!(log.first_id(), expected.first().map_or(StreamId::MIN, |(id, _)| *id));
    assert_eq!(log.last_live_id(), expected.last().map(|(id, _)| *id));
    assert_eq!((log.last_id(), log.max_deleted_id()), (model.last, model.max_deleted));
    assert_eq!(log.nodes().len(), model.nodes.len());
    let held: usize = log.nodes().map(|(_, node)| node.heap_bytes() + NODE_SLOT_BYTES).sum();
    assert_eq!(log.mem_bytes(), held);
    let firsts = model.nodes.iter().map(|node| node.entries[0].0);
    assert!(log.nodes().map(|(first, _)| first).eq(firsts));
}

proptest! {
    #[test]
    fn behaves_like_a_list(
        steps in prop::collection::vec(step(), 1..120),
        max_entries in 1u64..12,
        window in (0u64..60, 0u64..3, 0u64..60, 0u64..3),
    ) {
        let limits = NodeLimits { entries: max_entries, bytes: 0 };
        let (mut log, mut model, mut given) = (Log::default(), Model::default(), Vec::new());
        for step in steps {
            match step {
                Step::Append(ms, seq, pairs) => {
                    let last = log.last_id();
                    let id = StreamId::new(last.ms + ms, last.seq * u64::from(ms == 0) + seq);
                    let appended = log.append(id, borrowed(&pairs), limits);
                    prop_assert_eq!(appended.is_ok(), id > last);
                    if appended.is_ok() {
                        given.push(id);
                        model.append(id, pairs, max_entries as usize);
                    }
                }
                Step::Delete(pick) if !given.is_empty() => {
                    let id = given[pick % given.len()];
                    prop_assert_eq!(log.delete(id), model.delete(id));
                }
                Step::Delete(_) => prop_assert!(!log.delete(StreamId::new(1, 1))),
                Step::Lower(seq) => {
                    let least = log.last_live_id().unwrap_or(StreamId::new(0, 1));
                    let last = StreamId::new(least.ms, least.seq + seq).min(log.last_id());
                    log.set_counters(last, None, None);
                    model.set_last(last);
                }
                Step::Trim(keep, precision) => {
                    prop_assert_eq!(log.trim(keep, precision), model.trim(keep, precision));
                }
            }
            assert_same(&log, &model);
        }
        let (start, end) = (StreamId::new(window.0, window.1), StreamId::new(window.2, window.3));
        let mut inside: Vec<_> =
            model.live.keys().copied().filter(|id| (start..=end).contains(id)).collect();
        prop_assert!(log.range(start, end).map(|entry| entry.id).eq(inside.iter().copied()));
        inside.reverse();
        prop_assert!(log.range_rev(start, end).map(|entry| entry.id).eq(inside.iter().copied()));
        prop_assert_eq!(log.get(start).is_some(), model.live.contains_key(&start));
    }

    #[test]
    fn pending_sets_mirror_the_group(
        steps in prop::collection::vec((0u8..4, 0u64..20, 0u8..4), 1..200),
    ) {
        let mut groups = Groups::default();
        groups.create(b"g", StreamId::MIN, None);
        for (kind, ms, who) in steps {
            let (id, name) = (StreamId::new(ms, 1), [b'a' + who]);
            let mut group = groups.get_mut(b"g").expect("created above");
            let found = group.find_consumer(&name);
            match (kind, found) {
                (0 | 1, slot) => {
                    let consumer =
                        slot.or_else(|| group.create_consumer(&name, 1)).expect("it was absent");
                    group.assign(id, Nack { delivered_ms: 1, deliveries: 1, consumer });
                }
                (2, _) => {
                    let pending = group.nack(id).is_some();
                    prop_assert_eq!(group.acknowledge(id).is_some(), pending);
                }
                (_, slot) => {
                    let expected = slot.map(|slot| group.consumer(slot).pending_len());
                    prop_assert_eq!(group.delete_consumer(&name), expected);
                }
            }
            let mut seen = Vec::new();
            for consumer in group.consumers() {
                for id in consumer.pending_from(StreamId::MIN) {
                    let owner = group.nack(id).expect("pending in the group").consumer;
                    prop_assert_eq!(&group.consumer(owner).name, &consumer.name);
                    seen.push(id);
                }
            }
            seen.sort();
            prop_assert!(group.pending_from(StreamId::MIN).map(|(id, _)| id).eq(seen));
        }
        groups.destroy(b"g");
        prop_assert_eq!(groups.mem_bytes(), 0);
    }
}

#[test]
fn a_small_entry_costs_few_bytes() {
    let mut log = Log::default();
    let pair = vec![(b"myfield".to_vec(), b"data".to_vec())];
    const COUNT: u64 = 100_000;
    for i in 0..COUNT {
        let id = StreamId::new(1_700_000_000_000 + i / 3, i % 3);
        log.append(id, borrowed(&pair), NodeLimits::default()).expect("ascending");
    }
    let each = log.mem_bytes() as f64 / COUNT as f64;
    assert!(each < 14.0, "{each} bytes an entry");
    log.trim(Keep::MaxLen(0), Precision::Exact);
    assert_eq!(log.mem_bytes(), 0);
}

#[test]
fn counters_tell_the_lag() {
    let mut stream = Stream::new();
    let pair = vec![(b"f".to_vec(), b"v".to_vec())];
    for seq in 1..=5 {
        let id = StreamId::new(1, seq);
        stream.log.append(id, borrowed(&pair), NodeLimits::default()).expect("ascending");
    }
    stream.groups.create(b"g", StreamId::MIN, None);
    let Stream { log, groups } = &mut stream;
    let mut group = groups.get_mut(b"g").expect("created above");
    assert_eq!(group.lag(log), Some(5));
    assert!(group.advance(log, StreamId::new(1, 1)));
    assert_eq!((group.entries_read(), group.lag(log)), (Some(1), Some(4)));
    assert!(!group.advance(log, StreamId::new(1, 1)));
    log.delete(StreamId::new(1, 3));
    assert_eq!(group.lag(log), None);
    group.advance(log, StreamId::new(1, 2));
    assert_eq!((group.entries_read(), group.lag(log)), (None, None));
    group.advance(log, StreamId::new(1, 5));
    assert_eq!((group.entries_read(), group.lag(log)), (Some(5), Some(0)));
}
