//! The commands of a worker on its streams: read, claim, retake, renew, settle.
//!
//! One [`GroupConsumer`] is a group of streams that one connection can read: all streams of the
//! worker on a single server, those of one slot on a Cluster.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use redis::{Cmd, Value, cmd};
use seawall_client::{
    Script,
    client::Client,
    error::{Error, Result},
};
use seawall_resilience::clock::{Clock, millis};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::{
    attempts::Attempts,
    builder::Settings,
    entry::{self, Entry, EntryId, Fields},
    in_flight::{InFlightEntries, Place},
    producer::Core,
    settle::Report,
    status::Meter,
};

/// Most entries that one call retakes or renews.
pub(super) const AT_ONCE: usize = 256;
/// Longest and shortest interval at which a worker looks for entries that others left behind.
const LOOK_SELDOM: Duration = Duration::from_secs(1);
const LOOK_OFTEN: Duration = Duration::from_millis(20);

static CLAIM: Script = Script::new(include_str!("script/claim.lua"));
static RETAKE: Script = Script::new(include_str!("script/retake.lua"));
static RENEW: Script = Script::new(include_str!("script/renew.lua"));
static PARK: Script = Script::new(include_str!("script/park.lua"));

/// Streams that are read together, and their entries in flight.
pub(super) struct GroupConsumer<T> {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) settings: Arc<Settings>,
    pub(super) streams: Vec<Arc<Core<T>>>,
    pub(super) in_flight: InFlightEntries,
    pub(super) meter: Arc<Meter>,
    /// Most entries of each stream in one read.
    pub(super) each: usize,
    /// Capacity for entries in flight.
    pub(super) room: Arc<Semaphore>,
    /// Whether the groups were created once.
    pub(super) began: AtomicBool,
}

/// An entry on its way to a handler.
pub(super) struct Taken {
    pub(super) place: Place,
    pub(super) attempts: Attempts,
    /// `None` if the entry was deleted.
    pub(super) fields: Option<Fields>,
    pub(super) room: Option<OwnedSemaphorePermit>,
}

/// What a worker knows about the attempts at an entry that it retakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// These attempts.
    These(Attempts),
    /// What Redis has recorded: this run has not begun the entry.
    InRedis,
    /// What Redis has recorded, but an earlier run under this name may have begun the entry.
    OfAnEarlierRun,
}

impl<T> GroupConsumer<T> {
    pub(super) fn new(
        client: Client,
        settings: Arc<Settings>,
        streams: Vec<Arc<Core<T>>>,
        meter: Arc<Meter>,
    ) -> Self {
        let each = (settings.batch / streams.len()).max(1);
        let page = each * streams.len();
        GroupConsumer {
            // A page can be read while every handler is busy.
            room: Arc::new(Semaphore::new(settings.concurrency + page)),
            each,
            clock: client.clock().clone(),
            client,
            settings,
            streams,
            in_flight: InFlightEntries::default(),
            meter,
            began: AtomicBool::new(false),
        }
    }

    /// Returns the most entries that one read returns.
    pub(super) fn page(&self) -> u32 {
        u32::try_from(self.each * self.streams.len()).unwrap_or(u32::MAX)
    }

    /// Returns the interval between looks for abandoned entries, which is also how long a read
    /// blocks.
    pub(super) fn poll_interval(&self) -> Duration {
        (self.settings.claim_idle / 2).clamp(LOOK_OFTEN, LOOK_SELDOM)
    }

    /// Returns the command that waits for new entries.
    pub(super) fn read_command(&self) -> Cmd {
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP").arg(&self.settings.group).arg(&self.settings.consumer);
        read.arg("COUNT").arg(self.each);
        read.arg("BLOCK").arg(millis(self.poll_interval()));
        read.arg("STREAMS");
        for stream in &self.streams {
            read.arg(&stream.key);
        }
        for _ in &self.streams {
            read.arg(">");
        }
        read
    }

    /// Parses the reply of a read.
    pub(super) fn sort(&self, reply: Value) -> Result<Vec<Taken>> {
        let mut taken = Vec::new();
        for (key, entries) in entry::by_stream(reply)? {
            let stream = self.streams.iter().position(|stream| stream.key == key);
            let stream =
                stream.ok_or_else(|| Error::unexpected("a stream that was not asked for"))?;
            taken.reserve(entries.len());
            taken.extend(entries.into_iter().map(|entry| Taken {
                place: Place { stream, id: entry.id },
                attempts: Attempts::FIRST,
                fields: entry.fields,
                room: None,
            }));
        }
        Ok(taken)
    }

    /// Returns ids after this one that are pending under this consumer's name.
    pub(super) async fn own(&self, stream: usize, after: EntryId) -> Result<Vec<EntryId>> {
        let key = &self.streams[stream].key;
        let mut pending = cmd("XPENDING");
        pending.arg(key).arg(&self.settings.group).arg(format!("({after}")).arg("+");
        pending.arg(self.page()).arg(&self.settings.consumer);
        let rows: Vec<Vec<Value>> = self.client.query(key, &pending).await?;
        rows.into_iter().filter_map(|row| row.into_iter().next()).map(entry::id).collect()
    }

    /// Takes over abandoned entries from a cursor on. Returns the next cursor, zero at the end.
    pub(super) async fn claim(
        &self,
        stream: usize,
        cursor: EntryId,
    ) -> Result<(EntryId, Vec<Taken>)> {
        let call = CLAIM
            .on(&[&self.streams[stream].key])
            .arg(&self.settings.group)
            .arg(&self.settings.consumer)
            .arg(millis(self.settings.claim_idle))
            .arg(cursor)
            .arg(self.each);
        let [cursor, taken]: [Value; 2] = entry::exactly(self.client.run(&call).await?)?;
        Ok((entry::id(cursor)?, taken_from(stream, entry::counted(taken)?)))
    }

    /// Retakes entries that are pending under this consumer's name, each with what is known of its
    /// attempts.
    ///
    /// Entries that now belong to another consumer or are settled are left out.
    pub(super) async fn retake(
        &self,
        stream: usize,
        entries: impl IntoIterator<Item = (EntryId, Known)>,
    ) -> Result<Vec<Taken>> {
        let mut call = RETAKE
            .on(&[&self.streams[stream].key])
            .arg(&self.settings.group)
            .arg(&self.settings.consumer);
        for (id, known) in entries {
            call = match known {
                Known::These(attempts) => call.arg(id).arg(attempts.counter()),
                Known::InRedis => call.arg(id).arg(0),
                Known::OfAnEarlierRun => call.arg(id).arg(-1),
            };
        }
        Ok(taken_from(stream, entry::counted(self.client.run(&call).await?)?))
    }

    /// Renews what was not renewed for a third of the idle time, so that other workers do not take it
    /// over. Passes entries that now belong to another consumer, or are settled, to `lost`.
    ///
    /// # Errors
    /// The first error of a stream; the others are renewed.
    pub(super) async fn renew_old(&self, lost: &mpsc::UnboundedSender<Report>) -> Result<()> {
        let asked = self.clock.now();
        let mut places = self.in_flight.to_renew(self.settings.claim_idle / 3, asked);
        places.sort_unstable_by_key(|place| place.stream);
        let mut outcome = Ok(());
        for group in places.chunk_by(|one, other| one.stream == other.stream) {
            for some in group.chunks(AT_ONCE) {
                let entries: Vec<_> = some.iter().map(|place| (*place, None)).collect();
                match self.renew(some[0].stream, &entries).await {
                    Ok(taken) => {
                        self.in_flight.renewed(some, asked);
                        // The settler may have ended.
                        let _ = lost.send(Report::Lost(taken));
                    }
                    Err(error) => outcome = Err(error),
                }
            }
        }
        outcome
    }

    /// Renews entries in progress, and records the attempts that are given with them.
    ///
    /// Returns the entries that now belong to another consumer or are settled.
    pub(super) async fn renew(
        &self,
        stream: usize,
        entries: &[(Place, Option<Attempts>)],
    ) -> Result<Vec<Place>> {
        let mut call = RENEW
            .on(&[&self.streams[stream].key])
            .arg(&self.settings.group)
            .arg(&self.settings.consumer);
        for (place, attempts) in entries {
            call = call.arg(place.id).arg(attempts.map_or(0, Attempts::counter));
        }
        let lost: Vec<Value> = self.client.eval(&call).await?;
        lost.into_iter().map(|id| Ok(Place { stream, id: entry::id(id)? })).collect()
    }

    /// Returns the acknowledgement of these entries, all of one stream.
    pub(super) fn acknowledgement(&self, places: &[Place]) -> (Vec<u8>, Cmd) {
        let key = &self.streams[places[0].stream].key;
        let mut ack = cmd("XACK");
        ack.arg(key).arg(&self.settings.group);
        for place in places {
            ack.arg(place.id);
        }
        (key.clone(), ack)
    }

    /// Parks an entry. Returns `false` if it belongs to another consumer or is settled.
    pub(super) async fn park(&self, place: Place, reason: &str, attempts: u64) -> Result<bool> {
        let stream = &self.streams[place.stream];
        let kept = self.settings.max_dead_letters;
        let kept = kept.map_or(-1, |kept| i64::try_from(kept).unwrap_or(i64::MAX));
        let call = PARK
            .on(&[&stream.key, &stream.parked])
            .arg(&self.settings.group)
            .arg(&self.settings.consumer)
            .arg(place.id)
            .arg(reason)
            .arg(attempts)
            .arg(kept)
            .arg(entry::PACKED);
        Ok(self.client.eval::<u64>(&call).await? == 1)
    }
}

fn taken_from(stream: usize, entries: Vec<(Entry, u64)>) -> Vec<Taken> {
    entries
        .into_iter()
        .map(|(entry, counter)| Taken {
            place: Place { stream, id: entry.id },
            attempts: Attempts::from_counter(counter),
            fields: entry.fields,
            room: None,
        })
        .collect()
}
