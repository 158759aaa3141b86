//! Places that are a copy of database rows.
//!
//! With a source every command runs on a complete set or not at all (`rebuild`). A set that Redis
//! does not have (Redis is new, lost its data, or evicted the set) is read from the source by one
//! process, and is never treated as an empty one. Write the database first and then call
//! [`PlacesIn::add`] or [`PlacesIn::remove`]; if that fails, [`PlacesIn::audit`] finds it later.

use std::{collections::BTreeMap, fmt};

use redis::{Arg, Cmd, FromRedisValue, Value, cmd};
use seawall_client::{
    client::{Script, ScriptInvocation},
    error::{Error, Result},
    member::Member,
};

use super::{
    PlacesIn, Point,
    copies::UserFn,
    rebuild::{Rank, Snapshot},
};

/// Members that one step of an audit compares.
const COMPARED_AT_ONCE: usize = 250;
/// Degrees by which a geo set may round: its cells are half as large.
const ROUNDING: f64 = 1e-5;

static PLACE: Script = Script::new(include_str!("script/place.lua"));

/// Outcome of [`PlacesIn::audit`]: how a set differed from its source.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a difference means that an update was lost"]
pub struct PlacesAudit<M> {
    /// Only in the source.
    pub missing: Vec<M>,
    /// Only in the set.
    pub surplus: Vec<M>,
    /// At different positions.
    pub moved: Vec<M>,
}

impl<M> PlacesAudit<M> {
    /// Returns `true` if they agreed.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.missing.is_empty() && self.surplus.is_empty() && self.moved.is_empty()
    }
}

impl<M> Default for PlacesAudit<M> {
    fn default() -> Self {
        PlacesAudit { missing: Vec::new(), surplus: Vec::new(), moved: Vec::new() }
    }
}

impl<M: Member> PlacesIn<M> {
    /// Sets the source of these places, for when Redis does not have them: `load` reads all of this
    /// kind.
    ///
    /// Every process that changes the set must set a source, too.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
    /// use seawall::{Seawall, social::Point};
    ///
    /// let seawall = Seawall::connect("embedded:").await?;
    /// let pier = Point { longitude: 120.15, latitude: 30.26 };
    /// // In production: select id, x, y from shop where type_id = 1.
    /// let table = move || async move { Ok::<_, std::io::Error>(vec![(7_u64, pier)]) };
    /// let shops = seawall.places::<u64>("shop").kind(&1)?.source(table);
    /// assert_eq!(shops.nearby(pier, 1_000.0, 0..10).await?.places[0].member, 7);
    /// # seawall.shutdown().await; Ok(()) }
    /// ```
    #[must_use]
    pub fn source<F, Fut, E>(mut self, load: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<(M, Point)>, E>> + Send + 'static,
        E: fmt::Display,
    {
        self.source = Some(UserFn::new(move |()| load()));
        self
    }

    /// Compares the set with the source.
    ///
    /// If they differ the set is deleted, and the next caller that needs it reads the source. A set
    /// that Redis does not have counts as correct.
    ///
    /// # Errors
    /// If Redis or the source does not answer; [`Error::Invalid`] without a source.
    pub async fn audit(&self) -> Result<PlacesAudit<M>> {
        let Some(source) = &self.source else {
            return Err(Error::Invalid("places without a source cannot be compared".into()));
        };
        let Some(mut listed) = self.listed().await? else { return Ok(PlacesAudit::default()) };
        // Read after the set: a place added in between is then missing in the set, not surplus.
        let known = source.call(()).await?;
        let mut audit = PlacesAudit::default();
        for (member, point) in &known {
            match listed.remove(member) {
                None => audit.missing.push(member.clone()),
                Some(there) if !close(there, *point) => audit.moved.push(member.clone()),
                Some(_) => {}
            }
        }
        audit.surplus.extend(listed.into_keys());
        if !audit.is_right() {
            self.forget().await?;
        }
        Ok(audit)
    }

    /// Deletes the set in Redis; with a source it is read again when it is needed. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn forget(&self) -> Result<()> {
        self.copy.forget().await
    }

    /// Runs a command on the set; with a source only on a complete one, which is rebuilt if needed.
    pub(super) async fn run<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        let Some(source) = &self.source else {
            return self.copy.client.query(&self.copy.key, command).await;
        };
        let call = self.call(command);
        let load = || async { snapshot(source.call(()).await?) };
        self.copy.complete(|| self.attempt(&call), load).await
    }

    /// Makes one attempt; returns `None` if the set is not complete.
    async fn attempt<T: FromRedisValue>(&self, call: &ScriptInvocation) -> Result<Option<T>> {
        let (complete, reply): (u8, Option<Value>) =
            match <[Value; 2]>::try_from(self.copy.client.eval::<Vec<Value>>(call).await?) {
                Ok([complete, reply]) => (redis::from_redis_value(complete)?, Some(reply)),
                Err(_) => (0, None),
            };
        match reply {
            Some(reply) if complete == 1 => Ok(Some(redis::from_redis_value(reply)?)),
            _ => Ok(None),
        }
    }

    /// Returns the script call that runs a command.
    fn call(&self, command: &Cmd) -> ScriptInvocation {
        let keys = [&self.copy.key, &self.copy.marker, &self.copy.lease];
        let words = command.args_iter().enumerate().filter(|(index, _)| *index != KEY_WORD);
        words.fold(PLACE.on(&keys), |call, (_, word)| match word {
            Arg::Simple(word) => call.arg(word),
            _ => call,
        })
    }

    /// Returns everything in the set with its position, or `None` if the set is not complete.
    async fn listed(&self) -> Result<Option<BTreeMap<M, Point>>> {
        let mut listed = BTreeMap::new();
        for start in (0..).step_by(COMPARED_AT_ONCE) {
            let mut command = cmd("ZRANGE");
            command.arg(&self.copy.key).arg(start).arg(start + COMPARED_AT_ONCE - 1);
            let Some(slice) = self.attempt::<Vec<Vec<u8>>>(&self.call(&command)).await? else {
                return Ok(None);
            };
            if slice.is_empty() {
                break;
            }
            let mut command = cmd("GEOPOS");
            command.arg(&self.copy.key).arg(&slice);
            let Some(points) =
                self.attempt::<Vec<Option<(f64, f64)>>>(&self.call(&command)).await?
            else {
                return Ok(None);
            };
            for (member, point) in slice.iter().zip(points) {
                let Some((longitude, latitude)) = point else { continue };
                let member = M::from_member(member)?;
                listed.insert(member, Point { longitude, latitude });
            }
        }
        Ok(Some(listed))
    }
}

/// Index of the key in a command.
const KEY_WORD: usize = 1;

fn close(there: Point, known: Point) -> bool {
    let (one, other) = (there, known.on_the_grid());
    (one.longitude - other.longitude).abs() < ROUNDING
        && (one.latitude - other.latitude).abs() < ROUNDING
}

/// Returns the places of the source, as they are written to Redis.
fn snapshot<M: Member>(places: Vec<(M, Point)>) -> Result<Snapshot> {
    let mut members = Vec::with_capacity(places.len());
    for (member, point) in places {
        members.push((Rank::At(point.check()?), member.to_member()?.into_owned()));
    }
    Ok(Snapshot::new(members, 0))
}

impl<M> Clone for PlacesIn<M> {
    fn clone(&self) -> Self {
        PlacesIn { copy: self.copy.clone(), source: self.source.clone() }
    }
}

impl<M> fmt::Debug for PlacesIn<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlacesIn").field("copy", &self.copy).finish_non_exhaustive()
    }
}
