//! Demo shops: ten types, six shops written by hand, the others generated from word lists.
//!
//! Invariants: ids are 1 to 48, every shop is within 5 km of [`CENTRE`], the first type has at
//! least twelve shops, and no two shops have the same name.

use super::seed::Seed;
use crate::{
    db::{WriteTx, folded},
    error::Result,
};

/// Centre of the town: longitude and latitude.
const CENTRE: (f64, f64) = (120.1490, 30.2590);
/// Maximum distance of a shop from the centre, in metres.
const TOWN_RADIUS: f64 = 4_500.0;
/// Number of shops.
const SHOPS: i64 = 48;
/// Metres per degree of latitude.
const DEGREE: f64 = 111_320.0;
/// Merchant who owns all shops.
const OWNER: i64 = 5;

/// Id and name of each type, in display order.
const TYPES: [(i64, &str); 10] = [
    (1, "Food"),
    (2, "Cafés"),
    (3, "Karaoke"),
    (4, "Books"),
    (5, "Sport"),
    (6, "Hair and nails"),
    (7, "Bars"),
    (8, "Bath houses"),
    (9, "Cinema and stage"),
    (10, "Family"),
];

/// Number of generated shops per type, in addition to those written by hand.
const MADE: [(i64, usize); 10] =
    [(1, 12), (2, 5), (3, 3), (4, 3), (5, 3), (6, 4), (7, 4), (8, 3), (9, 3), (10, 2)];

const FIRST: [&str; 16] = [
    "Amber",
    "Blue Door",
    "Cedar",
    "Dragonfly",
    "Ebb",
    "Fox Lane",
    "Golden",
    "Half Moon",
    "Ivory",
    "Juniper",
    "Kite",
    "Lotus",
    "Maple",
    "North Pier",
    "Osmanthus",
    "Paper Crane",
];

/// Returns the possible last words of a shop name of this type.
fn last(kind: i64) -> &'static [&'static str] {
    match kind {
        1 => &["Kitchen", "Noodle Bar", "Dumplings", "Grill", "Hotpot", "Rice House"],
        2 => &["Coffee", "Tea Room", "Bakery"],
        3 => &["Singing Rooms", "Karaoke"],
        4 => &["Books", "Reading Room"],
        5 => &["Climbing Hall", "Courts", "Gym"],
        6 => &["Hair", "Nails", "Barber"],
        7 => &["Bar", "Taproom", "Cellar"],
        8 => &["Baths", "Springs"],
        9 => &["Picture House", "Little Theatre"],
        _ => &["Playhouse", "Toy Workshop"],
    }
}

const AREAS: [&str; 6] =
    ["Old Harbour", "Mill Quarter", "Night Market", "University Hill", "Riverside", "Garden Gate"];
const STREETS: [&str; 12] = [
    "Quay Street",
    "Mill Lane",
    "Lantern Road",
    "College Steps",
    "Weir Bank",
    "Plum Alley",
    "Ferry Row",
    "Bell Street",
    "Willow Walk",
    "Rope Yard",
    "Orchard Rise",
    "Salt Market",
];
const HOURS: [&str; 6] =
    ["10:00-22:00", "07:30-19:00", "11:00-23:00", "09:00-21:00", "16:00-02:00", "06:00-22:00"];

/// A shop row.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    id: i64,
    name: String,
    kind: i64,
    area: &'static str,
    address: String,
    x: f64,
    y: f64,
    price: i64,
    sold: i64,
    comments: i64,
    score: i64,
    hours: &'static str,
}

/// Name, kind, area, address, longitude, latitude, price, sold, comments, score, hours.
type Told =
    (&'static str, i64, &'static str, &'static str, f64, f64, i64, i64, i64, i64, &'static str);

#[rustfmt::skip]
const TOLD: [Told; 6] = [
    ("Harbour Noodles", 1, "Old Harbour", "12 Quay Street", 120.1490, 30.2590, 4200, 4215, 3035, 47, "10:00-22:00"),
    ("The Copper Kettle", 2, "Mill Quarter", "3 Mill Lane", 120.1530, 30.2610, 3100, 1180, 640, 45, "07:30-19:00"),
    ("Lantern Karaoke", 3, "Night Market", "88 Lantern Road", 120.1605, 30.2555, 9800, 2160, 1502, 43, "14:00-02:00"),
    ("Salt and Seaweed", 1, "Old Harbour", "1 Pier Six", 120.1462, 30.2577, 12800, 960, 415, 49, "11:30-21:30"),
    ("Quiet Hour Books", 4, "University Hill", "27 College Steps", 120.1688, 30.2702, 2600, 730, 288, 46, "09:00-21:00"),
    ("Tide Pool Swim Hall", 5, "Riverside", "5 Weir Bank", 120.1420, 30.2488, 5500, 3340, 990, 44, "06:00-22:00"),
];

/// Returns all shops of the town.
fn town() -> Vec<Row> {
    let told = TOLD.iter().zip(1..).map(|(shop, id)| {
        let &(name, kind, area, address, x, y, price, sold, comments, score, hours) = shop;
        let (name, address) = (name.to_owned(), address.to_owned());
        Row { id, name, kind, area, address, x, y, price, sold, comments, score, hours }
    });
    let mut rows: Vec<Row> = told.collect();
    let mut seed = Seed::new(1);
    let kinds = MADE.iter().flat_map(|&(kind, count)| (0..count).map(move |nth| (kind, nth)));
    for ((kind, nth), id) in kinds.zip(7..=SHOPS) {
        rows.push(made(&mut seed, id, kind, nth));
    }
    rows
}

fn made(seed: &mut Seed, id: i64, kind: i64, nth: usize) -> Row {
    // Each first word is used once per type: no two names are the same.
    let first = FIRST[(nth * 5 + usize::try_from(kind).unwrap_or(0) * 3) % FIRST.len()];
    let name = format!("{first} {}", seed.pick(last(kind)));
    let (angle, far) = (seed.part() * std::f64::consts::TAU, seed.part().sqrt() * TOWN_RADIUS);
    let (x, y) = CENTRE;
    let row_sold = seed.between(40, 5_000);
    Row {
        id,
        name,
        kind,
        area: seed.pick(&AREAS),
        address: format!("{} {}", seed.between(1, 180), seed.pick(&STREETS)),
        x: rounded(x + far * angle.cos() / (DEGREE * y.to_radians().cos())),
        y: rounded(y + far * angle.sin() / DEGREE),
        price: seed.between(15, 160) * 100,
        sold: row_sold,
        comments: seed.between(10, row_sold),
        score: seed.between(34, 49),
        hours: seed.pick(&HOURS),
    }
}

/// Rounds to four digits: eleven metres.
fn rounded(degrees: f64) -> f64 {
    (degrees * 10_000.0).round() / 10_000.0
}

/// Inserts types and shops.
pub(super) async fn fill(tx: &mut WriteTx<'_>, now: i64) -> Result<()> {
    for ((id, name), sort) in TYPES.into_iter().zip(1_i64..) {
        sqlx::query(
            "INSERT INTO shop_type (id, name, icon, sort, create_time, update_time) \
             VALUES (?, ?, ?, ?, ?, ?)",
        )
        .bind(id)
        .bind(name)
        .bind(format!("/pictures/type/{id}.svg"))
        .bind(sort)
        .bind(now)
        .bind(now)
        .execute(tx.query())
        .await?;
    }
    for row in town() {
        insert(tx, row, now).await?;
    }
    Ok(())
}

async fn insert(tx: &mut WriteTx<'_>, row: Row, now: i64) -> Result<()> {
    let id = row.id;
    let search_name = folded(&row.name);
    let images = [id, id + 100, id + 200].map(|picture| format!("/pictures/shop/{picture}.svg"));
    sqlx::query(
        "INSERT INTO shop (id, owner_id, name, type_id, images, area, address, x, y, avg_price, \
         sold, comments, score, open_hours, create_time, update_time, search_name) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(row.id)
    .bind(OWNER)
    .bind(row.name)
    .bind(row.kind)
    .bind(images.join(","))
    .bind(row.area)
    .bind(row.address)
    .bind(row.x)
    .bind(row.y)
    .bind(row.price)
    .bind(row.sold)
    .bind(row.comments)
    .bind(row.score)
    .bind(row.hours)
    .bind(now)
    .bind(now)
    .bind(search_name)
    .execute(tx.query())
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_town_is_as_it_should_be_and_always_the_same() {
        let (town, again) = (town(), town());
        assert_eq!(town, again);
        assert_eq!(
            town.iter().map(|shop| shop.id).collect::<Vec<_>>(),
            (1..=48).collect::<Vec<_>>()
        );
        let names: HashSet<&str> = town.iter().map(|shop| shop.name.as_str()).collect();
        assert_eq!(names.len(), town.len(), "no name twice");
        assert!(town.iter().filter(|shop| shop.kind == 1).count() >= 12);
        for shop in &town {
            let east = (shop.x - CENTRE.0) * DEGREE * CENTRE.1.to_radians().cos();
            let north = (shop.y - CENTRE.1) * DEGREE;
            assert!(east.hypot(north) < 4_900.0, "{shop:?}");
            assert!(TYPES.iter().any(|(kind, _)| *kind == shop.kind), "{shop:?}");
        }
    }
}
