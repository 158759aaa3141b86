//! Geography as Redis keeps it in sorted sets: a position is a 52-bit score.
//!
//! Longitude and latitude are each cut into 2^26 steps of their range; the bits of both are
//! interleaved, longitude in the higher place of each pair, and the 52 bits are stored as a double.
//! Squares of the globe are therefore ranges of scores: a square of `steps` bits a side is the
//! range from its bits, padded with zeros, up to the next square's.
//!
//! A search covers its shape with the square around the centre and up to eight neighbours, at a
//! size chosen from the radius, and looks at the members in each. Which squares, in which order,
//! decides the order of unsorted replies and what `COUNT … ANY` finds, so the choice is Redis', its
//! rough edges included; those are marked.
//!
//! The latitude range is that of the Mercator projection, except in [`geohash_text`].

mod cover;

pub(crate) use cover::{Square, cover};

/// Bits a side of a stored position.
const STEPS_MAX: u32 = 26;
/// The longitudes that can be stored.
const LONGITUDES: Span = Span { min: -180.0, max: 180.0 };
/// The latitudes that can be stored.
const LATITUDES: Span = Span { min: -85.051_128_78, max: 85.051_128_78 };
/// The mean radius that Redis reckons with.
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;

/// A range of degrees.
#[derive(Clone, Copy, Debug)]
struct Span {
    min: f64,
    max: f64,
}

impl Span {
    fn contains(self, degrees: f64) -> bool {
        degrees >= self.min && degrees <= self.max
    }

    /// Where in the range a coordinate lies, in steps of 2^-`steps` of it.
    fn step_of(self, degrees: f64, steps: u32) -> u32 {
        let part = (degrees - self.min) / (self.max - self.min);
        // Redis: the upper end of the range belongs to the step behind the last one, which at 26
        // steps still fits; the conversion saturates where C's would be undefined.
        (part * (1u64 << steps) as f64) as u32
    }

    /// The degrees where a step begins.
    fn degrees_of(self, step: u32, steps: u32) -> f64 {
        self.min + (f64::from(step) / (1u64 << steps) as f64) * (self.max - self.min)
    }

    fn clamp(self, degrees: f64) -> f64 {
        degrees.clamp(self.min, self.max)
    }
}

/// A point on the globe, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Position {
    /// Degrees east.
    pub(crate) longitude: f64,
    /// Degrees north.
    pub(crate) latitude: f64,
}

impl Position {
    /// Whether the position can be stored.
    pub(crate) fn is_valid(&self) -> bool {
        LONGITUDES.contains(self.longitude) && LATITUDES.contains(self.latitude)
    }

    /// The score of the position, which must be valid.
    pub(crate) fn score(&self) -> f64 {
        interleave(
            LATITUDES.step_of(self.latitude, STEPS_MAX),
            LONGITUDES.step_of(self.longitude, STEPS_MAX),
        ) as f64
    }

    /// The middle of the square that a score stands for.
    pub(crate) fn from_score(score: f64) -> Self {
        // Redis: scores that GEOADD did not make are converted as x86-64 does it, which wraps
        // around where C leaves the result open.
        const TWO_63: f64 = (1u64 << 63) as f64;
        let bits = if score < TWO_63 {
            score as i64 as u64
        } else if score < 2.0 * TWO_63 {
            score as u64
        } else {
            0
        };
        Square { bits, steps: STEPS_MAX }.middle()
    }

    /// The great-circle distance in metres.
    pub(crate) fn distance_m(&self, other: &Self) -> f64 {
        let v = ((other.longitude.to_rad() - self.longitude.to_rad()) / 2.0).sin();
        // Redis: on one meridian the cheaper formula is used, which rounds differently.
        if v == 0.0 {
            return latitude_distance_m(self.latitude, other.latitude);
        }
        let (lat1, lat2) = (self.latitude.to_rad(), other.latitude.to_rad());
        let u = ((lat2 - lat1) / 2.0).sin();
        let a = u * u + lat1.cos() * lat2.cos() * v * v;
        2.0 * EARTH_RADIUS_M * a.sqrt().asin()
    }
}

/// Degrees to radians with Redis' rounding, which `f64::to_radians` does not promise.
trait Degrees {
    fn to_rad(self) -> f64;
}

impl Degrees for f64 {
    fn to_rad(self) -> f64 {
        self * (std::f64::consts::PI / 180.0)
    }
}

fn latitude_distance_m(a: f64, b: f64) -> f64 {
    EARTH_RADIUS_M * (b.to_rad() - a.to_rad()).abs()
}

/// What a search looks for around its centre.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// Everything within a distance.
    Circle {
        /// In metres.
        radius_m: f64,
    },
    /// Everything in a box whose sides run along meridians and parallels.
    Box {
        /// East to west, in metres.
        width_m: f64,
        /// North to south, in metres.
        height_m: f64,
    },
}

impl Shape {
    /// The distance of a point from the centre, if it is inside.
    pub(crate) fn distance_inside(&self, centre: &Position, point: &Position) -> Option<f64> {
        match *self {
            Shape::Circle { radius_m } => {
                let distance = centre.distance_m(point);
                (distance <= radius_m).then_some(distance)
            }
            Shape::Box { width_m, height_m } => {
                if latitude_distance_m(point.latitude, centre.latitude) > height_m / 2.0 {
                    return None;
                }
                let beside = Position { latitude: point.latitude, ..*centre };
                if point.distance_m(&beside) > width_m / 2.0 {
                    return None;
                }
                Some(centre.distance_m(point))
            }
        }
    }
}

/// The eleven characters that GEOHASH answers, in the alphabet of geohash.org.
pub(crate) fn geohash_text(position: &Position) -> [u8; 11] {
    const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
    let latitudes = Span { min: -90.0, max: 90.0 };
    let bits = interleave(
        latitudes.step_of(position.latitude, STEPS_MAX),
        LONGITUDES.step_of(position.longitude, STEPS_MAX),
    );
    let mut text = [b'0'; 11];
    // Redis: 52 bits make ten characters; the eleventh is always 0.
    for (i, place) in text[..10].iter_mut().enumerate() {
        *place = ALPHABET[(bits >> (52 - 5 * (i + 1)) & 0x1f) as usize];
    }
    text
}

/// Puts the bits of two numbers in turn, those of `high` above those of `low`.
fn interleave(low: u32, high: u32) -> u64 {
    spread(low) | spread(high) << 1
}

/// Bit `i` goes to bit `2 i`.
fn spread(n: u32) -> u64 {
    let mut n = u64::from(n);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        n = (n | n << shift) & mask;
    }
    n
}

/// Bit `2 i` goes to bit `i`; the others are dropped.
fn gather(n: u64) -> u32 {
    let mut n = n & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        n = (n | n >> shift) & mask;
    }
    n as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(longitude: f64, latitude: f64) -> Position {
        Position { longitude, latitude }
    }

    // The figures are what redis-server 7.0.15 answers for the same input.
    #[test]
    fn scores_hashes_and_distances_are_those_of_redis() {
        let palermo = at(13.361389, 38.115556);
        let catania = at(15.087269, 37.502669);
        assert_eq!(palermo.score(), 3_479_099_956_230_698.0);
        assert_eq!(catania.score(), 3_479_447_370_796_909.0);
        let (p, c) = (Position::from_score(palermo.score()), Position::from_score(catania.score()));
        assert_eq!(&geohash_text(&p), b"sqc8b49rny0");
        assert_eq!(&geohash_text(&c), b"sqdtr74hyu0");
        assert_eq!(format!("{:.4}", p.distance_m(&c)), "166274.1516");
    }

    #[test]
    fn only_the_mercator_band_is_valid() {
        assert!(at(180.0, 85.051_128_78).is_valid());
        assert!(!at(180.1, 0.0).is_valid());
        assert!(!at(0.0, -85.06).is_valid());
        assert!(!at(f64::NAN, 0.0).is_valid());
    }

    proptest! {
        #[test]
        fn interleaving_is_undone(low: u32, high: u32) {
            let bits = interleave(low, high);
            prop_assert_eq!((gather(bits), gather(bits >> 1)), (low, high));
        }

        #[test]
        fn a_stored_position_is_near_the_given_one(
            lon in -180.0..180.0, lat in -85.0..85.0,
        ) {
            let given = at(lon, lat);
            prop_assert!(given.distance_m(&Position::from_score(given.score())) < 1.0);
        }

        #[test]
        fn any_score_can_be_read(score: f64) {
            let position = Position::from_score(score);
            prop_assert!(position.is_valid());
        }
    }
}
