//! Which squares of the globe a search has to look at.

use super::{
    Degrees, EARTH_RADIUS_M, LATITUDES, LONGITUDES, Position, STEPS_MAX, Shape, gather, interleave,
};

/// Half the equator in the Mercator projection, in metres.
const MERCATOR_MAX_M: f64 = 20_037_726.37;

/// The places of the latitude's bits.
const LATITUDE_BITS: u64 = 0x5555_5555_5555_5555;
/// The places of the longitude's bits.
const LONGITUDE_BITS: u64 = !LATITUDE_BITS;

/// A square: the leading `steps` bits of both coordinates, interleaved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Square {
    pub(super) bits: u64,
    pub(super) steps: u32,
}

/// The edges of an area, in degrees.
#[derive(Clone, Copy, Debug)]
struct Edges {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

impl Square {
    fn around(position: &Position, steps: u32) -> Self {
        let bits = interleave(
            LATITUDES.step_of(position.latitude, steps),
            LONGITUDES.step_of(position.longitude, steps),
        );
        Self { bits, steps }
    }

    /// The scores in the square: from the first, up to and without the second.
    pub(crate) fn scores(&self) -> (f64, f64) {
        let shift = 2 * (STEPS_MAX - self.steps);
        ((self.bits << shift) as f64, (self.bits.wrapping_add(1) << shift) as f64)
    }

    /// The point in the middle.
    pub(super) fn middle(&self) -> Position {
        let edges = self.edges();
        Position {
            longitude: LONGITUDES.clamp((edges.west + edges.east) / 2.0),
            latitude: LATITUDES.clamp((edges.south + edges.north) / 2.0),
        }
    }

    fn edges(&self) -> Edges {
        let (north, east) = (gather(self.bits), gather(self.bits >> 1));
        Edges {
            west: LONGITUDES.degrees_of(east, self.steps),
            east: LONGITUDES.degrees_of(east.wrapping_add(1), self.steps),
            south: LATITUDES.degrees_of(north, self.steps),
            north: LATITUDES.degrees_of(north.wrapping_add(1), self.steps),
        }
    }

    /// The square some steps away, wrapping around the globe.
    fn moved(&self, east: i32, north: i32) -> Self {
        let all = u64::MAX >> (64 - 2 * self.steps);
        let shift = |bits: u64, own: u64, by: i32| {
            // With the other coordinate's bits all set a carry runs through them.
            let others = !own & all;
            match by {
                0 => bits & own,
                1 => (bits & own).wrapping_add(others + 1) & own & all,
                _ => (bits & own | others).wrapping_sub(others + 1) & own & all,
            }
        };
        let bits = shift(self.bits, LONGITUDE_BITS, east) | shift(self.bits, LATITUDE_BITS, north);
        Self { bits, steps: self.steps }
    }
}

/// The squares to search, in Redis' order.
pub(crate) fn cover(centre: &Position, shape: &Shape) -> Vec<Square> {
    let bounds = bounding_box(centre, shape);
    let radius_m = match *shape {
        Shape::Circle { radius_m } => radius_m,
        Shape::Box { width_m, height_m } => {
            ((width_m / 2.0) * (width_m / 2.0) + (height_m / 2.0) * (height_m / 2.0)).sqrt()
        }
    };
    let mut steps = steps_for(radius_m, centre.latitude);
    let mut square = Square::around(centre, steps);
    if steps > 1 && neighbours_fall_short(&square, &bounds) {
        steps -= 1;
        square = Square::around(centre, steps);
    }
    let edges = square.edges();
    // Redis: at one step nothing is left out.
    let narrow = steps >= 2;
    let skip_south = narrow && edges.south < bounds.south;
    let skip_north = narrow && edges.north > bounds.north;
    let skip_west = narrow && edges.west < bounds.west;
    let skip_east = narrow && edges.east > bounds.east;

    let mut squares: Vec<Square> = Vec::with_capacity(9);
    for (i, (east, north)) in
        [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)]
            .into_iter()
            .enumerate()
    {
        let skipped = (north < 0 && skip_south)
            || (north > 0 && skip_north)
            || (east < 0 && skip_west)
            || (east > 0 && skip_east);
        if skipped {
            continue;
        }
        let next = square.moved(east, north);
        // Redis: with huge radii neighbours coincide; only one equal to the one searched last is
        // left out, and the centre does not count as that one.
        let repeats = i > 0 && squares.len() > 1 && squares.last() == Some(&next);
        if !repeats {
            squares.push(next);
        }
    }
    squares
}

/// How many bits a side make squares of about the size of the radius.
fn steps_for(radius_m: f64, latitude: f64) -> u32 {
    if radius_m == 0.0 {
        return STEPS_MAX;
    }
    let mut steps = 1i32;
    let mut reach_m = radius_m;
    while reach_m < MERCATOR_MAX_M {
        reach_m *= 2.0;
        steps += 1;
    }
    steps -= 2;
    // Towards the poles the squares are narrower than they seem.
    if latitude.abs() > 66.0 {
        steps -= 1;
        if latitude.abs() > 80.0 {
            steps -= 1;
        }
    }
    steps.clamp(1, STEPS_MAX as i32) as u32
}

/// Whether the squares around this one end before the bounds do.
fn neighbours_fall_short(square: &Square, bounds: &Edges) -> bool {
    square.moved(0, 1).edges().north < bounds.north
        || square.moved(0, -1).edges().south > bounds.south
        || square.moved(1, 0).edges().east < bounds.east
        || square.moved(-1, 0).edges().west > bounds.west
}

/// The box around a shape; its width is measured at the side nearer to the pole.
fn bounding_box(centre: &Position, shape: &Shape) -> Edges {
    let (half_height, half_width) = match *shape {
        Shape::Circle { radius_m } => (radius_m, radius_m),
        Shape::Box { width_m, height_m } => (height_m / 2.0, width_m / 2.0),
    };
    let to_degrees = |radians: f64| radians / (std::f64::consts::PI / 180.0);
    let up = to_degrees(half_height / EARTH_RADIUS_M);
    let across = |latitude: f64| to_degrees(half_width / EARTH_RADIUS_M / latitude.to_rad().cos());
    let side = match centre.latitude < 0.0 {
        true => across(centre.latitude - up),
        false => across(centre.latitude + up),
    };
    Edges {
        west: centre.longitude - side,
        east: centre.longitude + side,
        south: centre.latitude - up,
        north: centre.latitude + up,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_wrap_around_the_globe() {
        for steps in 1..=STEPS_MAX {
            let corner = Square { bits: 0, steps };
            let (west, south) = (corner.moved(-1, 0), corner.moved(0, -1));
            assert_eq!(west.moved(1, 0), corner);
            assert_eq!(south.moved(0, 1), corner);
            assert_eq!(gather(west.bits >> 1), ((1u64 << steps) - 1) as u32);
            assert_eq!(gather(south.bits), ((1u64 << steps) - 1) as u32);
            assert_eq!(corner.moved(1, 1).moved(-1, -1), corner);
        }
    }

    #[test]
    fn a_small_circle_needs_few_squares() {
        let centre = Position { longitude: 15.0, latitude: 37.0 };
        let squares = cover(&centre, &Shape::Circle { radius_m: 100.0 });
        assert!(!squares.is_empty() && squares.len() <= 9);
        assert_eq!(squares[0], Square::around(&centre, squares[0].steps));
    }

    #[test]
    fn absurd_radii_are_survived() {
        let centre = Position { longitude: 179.9, latitude: -85.0 };
        for radius_m in [0.0, 1e-300, 1e12, f64::INFINITY, f64::MAX] {
            assert!(!cover(&centre, &Shape::Circle { radius_m }).is_empty());
            let shape = Shape::Box { width_m: radius_m, height_m: 1.0 };
            assert!(!cover(&centre, &shape).is_empty());
        }
    }
}
