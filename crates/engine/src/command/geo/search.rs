//! GEOSEARCH, GEOSEARCHSTORE and the GEORADIUS family: one search, three grammars.
//!
//! Redis reads its options in a certain order and looks at the key before them; which of several
//! mistakes is reported depends on that, so the steps here are in the same order.

use super::{position, reply_distance, reply_position, unit_m};
use crate::args::{self, is};
use crate::command::zset::{limits, store};
use crate::ctx::Ctx;
use crate::error::{Done, Error, printable};
use crate::geo::{Position, Shape, cover};
use crate::number;
use crate::resp::Reply;
use crate::value::Kind;
use crate::value::member::Member;
use crate::value::zset::{End, ScoreRange, ZSet};

const UNKNOWN_MEMBER: Error = Error::fixed("ERR could not decode requested zset member");

/// Which command of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// GEORADIUS and GEORADIUSBYMEMBER, which may store.
    Radius,
    /// The same commands with `_RO`.
    RadiusReadOnly,
    Search,
    SearchStore,
}

impl Form {
    fn is_search(self) -> bool {
        matches!(self, Form::Search | Form::SearchStore)
    }
}

/// A parsed request.
#[derive(Default)]
struct Query<'a> {
    centre: Option<Centre>,
    shape: Option<Shape>,
    /// Metres of the unit that distances are given in.
    unit_m: f64,
    store_at: Option<&'a [u8]>,
    store_distance: bool,
    with_distance: bool,
    with_hash: bool,
    with_position: bool,
    /// From the nearest (`Min`) or the farthest.
    sort: Option<End>,
    /// 0: all.
    count: usize,
    any: bool,
}

/// Where the middle is.
#[derive(Clone, Copy)]
enum Centre {
    At(Position),
    /// At a member of a key that does not exist: there will be nothing to find.
    Nowhere,
}

/// GEORADIUS key longitude latitude radius unit [options]
pub(in crate::command) fn georadius(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    radius_at(cx, args, out, Form::Radius)
}

/// GEORADIUS_RO key longitude latitude radius unit [options]
pub(in crate::command) fn georadius_ro(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    radius_at(cx, args, out, Form::RadiusReadOnly)
}

fn radius_at(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply, form: Form) -> Done {
    let set = cx.get::<ZSet>(args[1])?;
    let centre = position(args[2], args[3])?;
    let mut query = Query { centre: Some(Centre::At(centre)), ..Query::default() };
    query.radius(args[4], args[5])?;
    query.options(&args[6..], set, form)?;
    search(cx, args, out, query, form)
}

/// GEORADIUSBYMEMBER key member radius unit [options]
pub(in crate::command) fn georadiusbymember(
    cx: &mut Ctx<'_>,
    args: &[&[u8]],
    out: &mut Reply,
) -> Done {
    radius_by_member(cx, args, out, Form::Radius)
}

/// GEORADIUSBYMEMBER_RO key member radius unit [options]
pub(in crate::command) fn georadiusbymember_ro(
    cx: &mut Ctx<'_>,
    args: &[&[u8]],
    out: &mut Reply,
) -> Done {
    radius_by_member(cx, args, out, Form::RadiusReadOnly)
}

fn radius_by_member(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply, form: Form) -> Done {
    let set = cx.get::<ZSet>(args[1])?;
    let mut query = Query::default();
    query.centre_at(set, args[2])?;
    // Redis: if the key does not exist, the radius is not checked.
    if set.is_some() {
        query.radius(args[3], args[4])?;
    }
    query.options(&args[5..], set, form)?;
    search(cx, args, out, query, form)
}

/// GEOSEARCH key FROMMEMBER … | FROMLONLAT … BYRADIUS … | BYBOX … [options]
pub(in crate::command) fn geosearch(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let set = cx.get::<ZSet>(args[1])?;
    let mut query = Query::default();
    query.options(&args[2..], set, Form::Search)?;
    search(cx, args, out, query, Form::Search)
}

/// GEOSEARCHSTORE dst src FROMMEMBER … | FROMLONLAT … BYRADIUS … | BYBOX … [options]
pub(in crate::command) fn geosearchstore(
    cx: &mut Ctx<'_>,
    args: &[&[u8]],
    out: &mut Reply,
) -> Done {
    let set = cx.get::<ZSet>(args[2])?;
    let mut query = Query { store_at: Some(args[1]), ..Query::default() };
    query.options(&args[3..], set, Form::SearchStore)?;
    search(cx, args, out, query, Form::SearchStore)
}

impl<'a> Query<'a> {
    fn radius(&mut self, radius: &[u8], unit: &[u8]) -> Done {
        let radius = number::parse_f64(radius).ok_or(Error::fixed("ERR need numeric radius"))?;
        if radius < 0.0 {
            return Err(Error::fixed("ERR radius cannot be negative"));
        }
        self.unit_m = unit_m(unit)?;
        self.shape = Some(Shape::Circle { radius_m: radius * self.unit_m });
        Ok(())
    }

    fn rectangle(&mut self, width: &[u8], height: &[u8], unit: &[u8]) -> Done {
        let width = number::parse_f64(width).ok_or(Error::fixed("ERR need numeric width"))?;
        let height = number::parse_f64(height).ok_or(Error::fixed("ERR need numeric height"))?;
        if width < 0.0 || height < 0.0 {
            return Err(Error::fixed("ERR height or width cannot be negative"));
        }
        self.unit_m = unit_m(unit)?;
        let (width_m, height_m) = (width * self.unit_m, height * self.unit_m);
        self.shape = Some(Shape::Box { width_m, height_m });
        Ok(())
    }

    fn centre_at(&mut self, set: Option<&ZSet>, member: &[u8]) -> Done {
        self.centre = Some(match set {
            Some(set) => Centre::At(Position::from_score(set.score(member).ok_or(UNKNOWN_MEMBER)?)),
            None => Centre::Nowhere,
        });
        Ok(())
    }

    fn options(&mut self, mut args: &[&'a [u8]], set: Option<&ZSet>, form: Form) -> Done {
        // Redis: the two ways to name the centre, and the two shapes, exclude each other, but one
        // of them may come twice; the last one counts.
        let (mut from_member, mut from_position, mut circle, mut rectangle) =
            (false, false, false, false);
        while let [option, rest @ ..] = args {
            args = rest;
            let is = |word: &str| is(option, word);
            if is("withdist") {
                self.with_distance = true;
            } else if is("withhash") {
                self.with_hash = true;
            } else if is("withcoord") {
                self.with_position = true;
            } else if is("any") {
                self.any = true;
            } else if is("asc") {
                self.sort = Some(End::Min);
            } else if is("desc") {
                self.sort = Some(End::Max);
            } else if is("count")
                && let [count, rest @ ..] = rest
            {
                self.count = usize::try_from(args::int(count)?)
                    .ok()
                    .filter(|count| *count > 0)
                    .ok_or(Error::fixed("ERR COUNT must be > 0"))?;
                args = rest;
            } else if form == Form::Radius
                && (is("store") || is("storedist"))
                && let [key, rest @ ..] = rest
            {
                self.store_at = Some(key);
                self.store_distance = is("storedist");
                args = rest;
            } else if form == Form::SearchStore && is("storedist") {
                self.store_distance = true;
            } else if form.is_search()
                && !from_position
                && is("frommember")
                && let [member, rest @ ..] = rest
            {
                self.centre_at(set, member)?;
                from_member = true;
                args = rest;
            } else if form.is_search()
                && !from_member
                && is("fromlonlat")
                && let [longitude, latitude, rest @ ..] = rest
            {
                self.centre = Some(Centre::At(position(longitude, latitude)?));
                from_position = true;
                args = rest;
            } else if form.is_search()
                && !rectangle
                && is("byradius")
                && let [radius, unit, rest @ ..] = rest
            {
                self.radius(radius, unit)?;
                circle = true;
                args = rest;
            } else if form.is_search()
                && !circle
                && is("bybox")
                && let [width, height, unit, rest @ ..] = rest
            {
                self.rectangle(width, height, unit)?;
                rectangle = true;
                args = rest;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(())
    }

    /// Refuses what cannot go together.
    fn check(&self, form: Form, name: &[u8]) -> Done {
        if self.store_at.is_some() && (self.with_distance || self.with_hash || self.with_position) {
            return Err(Error::fixed(if form == Form::SearchStore {
                "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            } else {
                "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and \
                 WITHCOORD options"
            }));
        }
        let one_of = |what: &str| {
            Error::new(format!(
                "ERR exactly one of {what} can be specified for {}",
                printable(name, name.len())
            ))
        };
        if form.is_search() && self.centre.is_none() {
            return Err(one_of("FROMMEMBER or FROMLONLAT"));
        }
        if form.is_search() && self.shape.is_none() {
            return Err(one_of("BYRADIUS and BYBOX"));
        }
        if self.any && self.count == 0 {
            return Err(Error::fixed("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }
}

/// A member that was found.
struct Found {
    member: Member,
    score: f64,
    position: Position,
    distance_m: f64,
}

fn search(
    cx: &mut Ctx<'_>,
    args: &[&[u8]],
    out: &mut Reply,
    mut query: Query<'_>,
    form: Form,
) -> Done {
    query.check(form, args[0])?;
    // Redis: the nearest ones are meant when a count comes without an order.
    if query.count > 0 && query.sort.is_none() && !query.any {
        query.sort = Some(End::Min);
    }
    let source = args[if form == Form::SearchStore { 2 } else { 1 }];
    let mut found = match (
        cx.db().get(source).and_then(|entry| ZSet::of(entry.value())),
        query.centre,
        &query.shape,
    ) {
        (Some(set), Some(Centre::At(centre)), Some(shape)) => {
            let enough = if query.any { query.count } else { usize::MAX };
            find(set, &centre, shape, enough)
        }
        _ => Vec::new(),
    };
    match query.sort {
        Some(End::Min) => found.sort_by(|a, b| a.distance_m.total_cmp(&b.distance_m)),
        Some(End::Max) => found.sort_by(|a, b| b.distance_m.total_cmp(&a.distance_m)),
        None => {}
    }
    if query.count > 0 {
        found.truncate(query.count);
    }
    let Some(target) = query.store_at else {
        reply_found(out, &found, &query);
        return Ok(());
    };
    let event = if form.is_search() { "geosearchstore" } else { "georadiusstore" };
    let pairs: Vec<_> = found
        .into_iter()
        .map(|found| {
            let distance = found.distance_m / query.unit_m;
            (found.member, if query.store_distance { distance } else { found.score })
        })
        .collect();
    let changes = pairs.len() as u64;
    let result = ZSet::from_pairs(pairs, &limits(cx));
    let len = store(cx, target, result, event, changes);
    out.count(len);
    Ok(())
}

/// The members inside a shape, square by square; stops when there are enough.
fn find(set: &ZSet, centre: &Position, shape: &Shape, enough: usize) -> Vec<Found> {
    let mut found = Vec::new();
    for square in cover(centre, shape) {
        let (min, max) = square.scores();
        let range = ScoreRange { min, min_open: false, max, max_open: true };
        for (member, score) in set.range(set.score_ranks(&range), End::Min) {
            let position = Position::from_score(score);
            if let Some(distance_m) = shape.distance_inside(centre, &position) {
                found.push(Found { member: Member::new(member), score, position, distance_m });
            }
            if found.len() >= enough {
                return found;
            }
        }
    }
    found
}

fn reply_found(out: &mut Reply, found: &[Found], query: &Query<'_>) {
    let extras = [query.with_distance, query.with_hash, query.with_position];
    let extras = extras.into_iter().filter(|with| *with).count();
    out.array(found.len());
    for item in found {
        if extras > 0 {
            out.array(extras + 1);
        }
        out.bulk(item.member.as_bytes());
        if query.with_distance {
            reply_distance(out, item.distance_m / query.unit_m);
        }
        if query.with_hash {
            out.int(item.score as i64);
        }
        if query.with_position {
            reply_position(out, &item.position);
        }
    }
}
