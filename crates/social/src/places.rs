//! Places: what is near a point, nearest first.
//!
//! There is one geo set per kind of place. The server orders and limits a search. GEOSEARCH has no
//! offset, so a page is the tail of a longer reply, and pages reach only the nearest [`REACH`]
//! places. For more, use a smaller circle or finer kinds.
//!
//! The set is an index beside a database, so it can name places that no longer exist:
//! [`Nearby::resolve`] skips such members and returns them for repair. With a source
//! ([`PlacesIn::source`]) the set is read from there if Redis does not have it, and can be
//! compared.

use std::marker::PhantomData;

use redis::cmd;
use seawall_client::{
    Handle, KeyPart,
    error::{Error, Result},
    member::Member,
};

use super::{
    copies::{Copies, UserFn},
    rebuild::{Kind, Rebuilt},
};

/// Number of the nearest places that pages reach.
const REACH: usize = 1000;
/// The largest latitude that a geo set accepts.
const MAX_LATITUDE: f64 = 85.051_128_78;
/// The largest useful radius, in metres: half the circumference of the earth.
const MAX_RADIUS: f64 = 20_100_000.0;

impl<M: Member> Places<M> {
    /// Creates places with this name.
    #[must_use]
    pub fn new(handle: &Handle, name: impl Into<String>) -> Places<M> {
        Places { copies: Copies::new(handle, "geo", name, Kind::GeoSet), member: PhantomData }
    }
}

/// Places of all kinds; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, social::Point};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let stations = seawall.places::<String>("shop").kind("station")?;
/// stations.add(&[
///     ("south".to_owned(), Point { longitude: 116.378248, latitude: 39.865275 }),
///     ("main".to_owned(), Point { longitude: 116.42803, latitude: 39.903738 }),
/// ]).await?;
/// let here = Point { longitude: 116.397904, latitude: 39.909005 };
/// let near = stations.nearby(here, 10_000.0, 0..10).await?;
/// let names: Vec<_> = near.places.iter().map(|place| place.member.as_str()).collect();
/// assert_eq!(names, ["main", "south"]);
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Places<M> {
    copies: Copies,
    member: PhantomData<fn(M) -> M>,
}

/// A point on the map.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Degrees east, ±180. Both are the same meridian, and a place may be added and searched on
    /// either.
    pub longitude: f64,
    /// Degrees north, ±85.05112878: the range of a geo set.
    pub latitude: f64,
}

impl Point {
    pub(super) fn check(self) -> Result<Self> {
        let Point { longitude, latitude } = self;
        // Written so that NaN is refused, too.
        if !(longitude.abs() <= 180.0 && latitude.abs() <= MAX_LATITUDE) {
            return Err(Error::Invalid(format!(
                "({longitude}, {latitude}) is not on the map: ±180, ±{MAX_LATITUDE} are allowed"
            )));
        }
        Ok(self.on_the_grid())
    }

    /// Returns the same point where a geo set has a cell for it.
    ///
    /// The cells go from -180 up to but not including 180. Servers put 180 into the cell after the
    /// last one, which no search from the other side reads, although searches do go round the earth
    /// everywhere else. The check uses the servers' own formula, because rounding puts values next
    /// to 180 there, too.
    pub(super) fn on_the_grid(self) -> Self {
        let longitude =
            if (self.longitude + 180.0) / 360.0 >= 1.0 { -180.0 } else { self.longitude };
        Point { longitude, ..self }
    }
}

/// A place that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Place<M> {
    /// The member.
    pub member: M,
    /// Its distance, in metres.
    pub metres: f64,
}

/// A page of places, nearest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Nearby<M> {
    /// The places; empty past the end.
    pub places: Vec<Place<M>>,
}

/// Places with their data from the database.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved<T, M> {
    /// The data of each place, with its distance in metres, nearest first.
    pub found: Vec<(T, f64)>,
    /// Members that the database does not know: pass them to [`PlacesIn::remove`].
    pub dangling: Vec<M>,
}

impl<M: Member> Places<M> {
    /// Returns the places of one kind.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the kind is empty or too long.
    pub fn kind(&self, kind: &(impl KeyPart + ?Sized)) -> Result<PlacesIn<M>> {
        Ok(PlacesIn { copy: self.copies.at(kind)?, source: None })
    }
}

/// The places of one kind.
pub struct PlacesIn<M> {
    pub(super) copy: Rebuilt,
    pub(super) source: Option<UserFn<(), Vec<(M, Point)>>>,
}

/// Most places in one command: each takes three arguments, and a script gets them all at once.
const PLACES_AT_ONCE: usize = 250;

impl<M: Member> PlacesIn<M> {
    /// Adds places, or moves them. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer: some of them may have been added. [`Error::Invalid`] if a point is
    /// not on the map.
    pub async fn add(&self, places: &[(M, Point)]) -> Result<()> {
        for slice in places.chunks(PLACES_AT_ONCE) {
            let mut command = cmd("GEOADD");
            command.arg(&self.copy.key);
            for (member, point) in slice {
                let point = point.check()?;
                command.arg(point.longitude).arg(point.latitude).arg(&*member.to_member()?);
            }
            self.run::<i64>(&command).await?;
        }
        Ok(())
    }

    /// Removes places and returns how many existed. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn remove(&self, members: &[M]) -> Result<u64> {
        let mut removed = 0;
        for slice in members.chunks(PLACES_AT_ONCE) {
            let mut command = cmd("ZREM");
            command.arg(&self.copy.key);
            for member in slice {
                command.arg(&*member.to_member()?);
            }
            removed += self.run::<u64>(&command).await?;
        }
        Ok(removed)
    }

    /// Returns the places within `metres` of a point, nearest first.
    ///
    /// `page` selects a part of that list: `0..10` is the first ten. Past the end it is empty.
    ///
    /// # Errors
    /// If Redis does not answer; [`Error::Invalid`] if the radius is not a distance on earth, or
    /// the page is beyond the nearest 1,000.
    pub async fn nearby(
        &self,
        centre: Point,
        metres: f64,
        page: std::ops::Range<usize>,
    ) -> Result<Nearby<M>> {
        let centre = centre.check()?;
        if !(metres > 0.0 && metres <= MAX_RADIUS) {
            return Err(Error::Invalid(format!(
                "a radius of {metres} m makes no sense: above 0, up to {MAX_RADIUS} are allowed"
            )));
        }
        if page.end > REACH {
            return Err(Error::Invalid(format!(
                "pages reach the nearest {REACH} places, not {}: make the circle smaller",
                page.end
            )));
        }
        if page.is_empty() {
            return Ok(Nearby { places: Vec::new() });
        }
        let mut command = cmd("GEOSEARCH");
        command.arg(&self.copy.key).arg("FROMLONLAT").arg(centre.longitude).arg(centre.latitude);
        command.arg("BYRADIUS").arg(metres).arg("m").arg("ASC").arg("COUNT").arg(page.end);
        command.arg("WITHDIST");
        let found: Vec<(Vec<u8>, f64)> = self.run(&command).await?;
        let places = found
            .into_iter()
            .skip(page.start)
            .map(|(member, metres)| Ok(Place { member: M::from_member(&member)?, metres }));
        Ok(Nearby { places: places.collect::<Result<_>>()? })
    }

    /// Returns the distance between two places in metres, or `None` if one of them is not in the
    /// set.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn distance(&self, pair: [&M; 2]) -> Result<Option<f64>> {
        let mut command = cmd("GEODIST");
        let [one, other] = pair;
        command.arg(&self.copy.key).arg(&*one.to_member()?).arg(&*other.to_member()?).arg("m");
        self.run(&command).await
    }

    /// Returns the number of places.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn count(&self) -> Result<u64> {
        self.run(cmd("ZCARD").arg(&self.copy.key)).await
    }
}

impl<M: Member> Nearby<M> {
    /// Replaces the members by their data from the database.
    ///
    /// `load` gets all members at once and returns one answer for each, in order. Members without
    /// an answer are skipped and reported.
    ///
    /// # Errors
    /// The error of `load`, and [`Error::Source`] if it returns another number of answers.
    pub async fn resolve<T, Fut, E>(
        self,
        load: impl FnOnce(Vec<M>) -> Fut,
    ) -> Result<Resolved<T, M>, E>
    where
        Fut: Future<Output = Result<Vec<Option<T>>, E>>,
        E: From<Error>,
    {
        let members: Vec<M> = self.places.iter().map(|place| place.member.clone()).collect();
        let asked = members.len();
        let known = if asked == 0 { Vec::new() } else { load(members).await? };
        if known.len() != asked {
            let text = format!("{} answers for {asked} places", known.len());
            return Err(Error::Source(text.into()).into());
        }
        let mut resolved = Resolved { found: Vec::with_capacity(asked), dangling: Vec::new() };
        for (place, known) in self.places.into_iter().zip(known) {
            match known {
                Some(known) => resolved.found.push((known, place.metres)),
                None => resolved.dangling.push(place.member),
            }
        }
        Ok(resolved)
    }
}
