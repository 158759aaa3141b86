//! Places: the values of the documents, pages, and members that dangle.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use seawall::{
    Error, cmd,
    social::{Place, PlacesIn, Point},
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    distances_are_those_of_the_documents
    pages_ascend_end_and_skip_what_dangles
    an_absent_set_is_read_from_the_source_and_compared
    circles_go_round_the_earth
}

const CENTRE: Point = Point { longitude: 116.397904, latitude: 39.909005 };

async fn distances_are_those_of_the_documents(setup: Setup) {
    let seawall = setup.connect().await;
    let stations: PlacesIn<String> = seawall.places("station").kind("rail").expect("valid");
    let at = |name: &str, longitude, latitude| (name.to_owned(), Point { longitude, latitude });
    let three = [
        at("bjn", 116.378248, 39.865275),
        at("bjz", 116.42803, 39.903738),
        at("bjx", 116.322287, 39.893729),
    ];
    stations.add(&three).await.expect("answered");
    let apart = stations.distance([&"bjx".to_owned(), &"bjz".to_owned()]).await.expect("answered");
    assert_eq!(apart, Some(9091.5648));
    let none = stations.distance([&"bjx".to_owned(), &"nowhere".to_owned()]).await;
    assert_eq!(none.expect("answered"), None);

    let near = stations.nearby(CENTRE, 10_000.0, 0..10).await.expect("answered").places;
    let shown: Vec<_> =
        near.iter().map(|p| (p.member.as_str(), format!("{:.4}", p.metres / 1000.0))).collect();
    let expected = [("bjz", "2.6361"), ("bjn", "5.1452"), ("bjx", "6.6723")];
    assert_eq!(shown, expected.map(|(name, km)| (name, km.to_owned())));
    seawall.shutdown().await;
}

async fn pages_ascend_end_and_skip_what_dangles(setup: Setup) {
    let seawall = setup.connect().await;
    let shops: PlacesIn<u64> = seawall.places("shop").kind(&1).expect("valid");
    let far = |step: u64| Point { latitude: CENTRE.latitude + 0.0001 * step as f64, ..CENTRE };
    // Put there in an order that is not that of their distance.
    let all: Vec<_> = (0..25).map(|step| (step * 7 % 25, far(step * 7 % 25))).collect();
    shops.add(&all).await.expect("answered");
    let mut seen = Vec::new();
    for page in 0..3 {
        let range = page * 10..page * 10 + 10;
        let near = shops.nearby(CENTRE, 5_000.0, range).await.expect("answered").places;
        seen.extend(near);
    }
    let order: Vec<u64> = seen.iter().map(|place| place.member).collect();
    assert_eq!(order, (0..25).collect::<Vec<_>>());
    assert!(seen.is_sorted_by(|a, b| a.metres <= b.metres));
    // Past the end there is nothing.
    assert!(shops.nearby(CENTRE, 5_000.0, 30..40).await.expect("answered").places.is_empty());
    let closest = shops.nearby(CENTRE, 30.0, 0..10).await.expect("answered").places;
    assert_eq!(closest.iter().map(|p: &Place<u64>| p.member).collect::<Vec<_>>(), [0, 1, 2]);

    // The database does not know 1 any more.
    let page = shops.nearby(CENTRE, 5_000.0, 0..3).await.expect("answered");
    let known = |ids: Vec<u64>| async move {
        Ok::<_, Error>(ids.into_iter().map(|id| (id != 1).then(|| format!("shop {id}"))).collect())
    };
    let resolved = page.resolve(known).await.expect("answered");
    let names: Vec<_> = resolved.found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names, &resolved.dangling), (vec!["shop 0", "shop 2"], &vec![1]));
    assert_eq!(shops.remove(&resolved.dangling).await.expect("answered"), 1);
    assert_eq!(shops.remove(&resolved.dangling).await.expect("answered"), 0);
    assert_eq!(shops.count().await.expect("answered"), 24);

    // What makes no sense is said, and nothing is sent.
    let nowhere = Point { longitude: f64::NAN, latitude: 0.0 };
    assert!(shops.add(&[(1, nowhere)]).await.is_err());
    assert!(shops.add(&[(1, Point { longitude: 0.0, latitude: 90.0 })]).await.is_err());
    assert!(shops.nearby(CENTRE, f64::INFINITY, 0..10).await.is_err());
    assert!(shops.nearby(CENTRE, 10.0, 999..1_001).await.is_err());
    seawall.shutdown().await;
}

/// The earth as the servers have it.
fn metres(one: Point, other: Point) -> f64 {
    let half = |a: f64, b: f64| ((a - b).to_radians() / 2.0).sin().powi(2);
    let across = one.latitude.to_radians().cos() * other.latitude.to_radians().cos();
    let chord = half(one.latitude, other.latitude) + across * half(one.longitude, other.longitude);
    2.0 * 6_372_797.560856 * chord.sqrt().asin()
}

/// Places on both sides of the antimeridian and on it, under both of its names.
async fn circles_go_round_the_earth(setup: Setup) {
    let seawall = setup.connect().await;
    let longitudes = [
        -180.0,
        -179.9999,
        -179.99,
        -179.5,
        -175.0,
        175.0,
        179.5,
        179.99,
        179.9999,
        179.999_999_999_999_97,
        180.0,
    ];
    let latitudes = [-60.0, -5.0, -0.0001, 0.0, 0.0001, 5.0, 60.0];
    let points: Vec<Point> = longitudes
        .iter()
        .flat_map(|longitude| latitudes.map(|latitude| Point { longitude: *longitude, latitude }))
        .collect();
    let table: Vec<(u64, Point)> = (0..).zip(points.iter().copied()).collect();
    let rows = table.clone();
    let load = move || {
        let rows = rows.clone();
        async move { Ok::<_, std::io::Error>(rows) }
    };
    let added: PlacesIn<u64> = seawall.places("island").kind("added").expect("valid");
    added.add(&table).await.expect("answered");
    let read = seawall.places("island").kind("read").expect("valid").source(load);
    for islands in [&added, &read] {
        for centre in &points {
            for radius in [50.0, 5_000.0, 300_000.0, 3_000_000.0] {
                let near =
                    islands.nearby(*centre, radius, 0..1_000).await.expect("answered").places;
                assert!(near.is_sorted_by(|a, b| a.metres <= b.metres));
                // Cells are less than a metre: what is nearer to the edge than that is left open.
                for (id, point) in &table {
                    let distance = metres(*centre, *point);
                    let found = near.iter().find(|place| place.member == *id);
                    match found {
                        Some(place) => assert!((place.metres - distance).abs() < 1.0),
                        None => assert!(distance > radius - 1.0, "{point:?} from {centre:?}"),
                    }
                }
                // Pages are parts of that list, also where it crosses.
                let page = islands.nearby(*centre, radius, 3..9).await.expect("answered").places;
                let whole = near.iter().skip(3).take(6).map(|place| place.metres);
                assert!(page.iter().map(|place| place.metres).eq(whole));
            }
        }
    }
    assert!(read.audit().await.expect("answered").is_right());
    seawall.shutdown().await;
}

async fn an_absent_set_is_read_from_the_source_and_compared(setup: Setup) {
    let seawall = setup.connect().await;
    let far = |step: u64| Point { latitude: CENTRE.latitude + 0.0001 * step as f64, ..CENTRE };
    let rows = Arc::new(Mutex::new((0..25).map(|id| (id, far(id))).collect::<BTreeMap<_, _>>()));
    let reads = Arc::new(AtomicU64::new(0));
    let source = {
        let (rows, reads) = (Arc::clone(&rows), Arc::clone(&reads));
        move || {
            reads.fetch_add(1, Ordering::SeqCst);
            let rows: Vec<_> =
                rows.lock().expect("not poisoned").iter().map(|(id, at)| (*id, *at)).collect();
            async move { Ok::<_, std::io::Error>(rows) }
        }
    };
    let change = |id: u64, at: Option<Point>| {
        let mut rows = rows.lock().expect("not poisoned");
        match at {
            Some(at) => rows.insert(id, at),
            None => rows.remove(&id),
        };
    };
    let shops: PlacesIn<u64> = seawall.places("shop").kind(&7).expect("valid").source(source);
    let near = |shops: PlacesIn<u64>| async move {
        let found = shops.nearby(CENTRE, 5_000.0, 0..100).await.expect("answered").places;
        found.into_iter().map(|place| place.member).collect::<Vec<_>>()
    };

    // Many find nothing, one reads.
    let readers: Vec<_> = (0..8).map(|_| tokio::spawn(near(shops.clone()))).collect();
    for reader in readers {
        assert_eq!(reader.await.expect("it ends"), (0..25).collect::<Vec<_>>());
    }
    assert_eq!(reads.load(Ordering::SeqCst), 1);
    // Changes go into the complete set.
    change(25, Some(far(25)));
    shops.add(&[(25, far(25))]).await.expect("answered");
    change(0, None);
    assert_eq!(shops.remove(&[0]).await.expect("answered"), 1);
    assert_eq!(near(shops.clone()).await, (1..=25).collect::<Vec<_>>());
    assert_eq!((shops.count().await.expect("answered"), reads.load(Ordering::SeqCst)), (25, 1));
    assert!(shops.audit().await.expect("answered").is_right());

    // A change to a set that is gone does not make a set of one.
    let key = setup.entry("geo:{shop:7}");
    let deleted: i64 =
        seawall.client().query(key.as_bytes(), cmd("DEL").arg(&key)).await.expect("answered");
    assert_eq!(deleted, 1, "the key is called so");
    change(26, Some(far(26)));
    shops.add(&[(26, far(26))]).await.expect("answered");
    assert_eq!(near(shops.clone()).await, (1..=26).collect::<Vec<_>>());

    // What was changed without telling is found, and right afterwards.
    change(27, Some(far(27)));
    change(3, None);
    change(5, Some(far(30)));
    let audit = shops.audit().await.expect("answered");
    assert_eq!((audit.missing, audit.surplus, audit.moved), (vec![27], vec![3], vec![5]));
    let expected = [1, 2, 4].into_iter().chain(6..=27).chain([5]).collect::<Vec<_>>();
    assert_eq!(near(shops.clone()).await, expected);
    assert!(shops.audit().await.expect("answered").is_right());

    // Emptied, and then the first one again: no set without a lifetime.
    for id in 1..=27 {
        change(id, None);
        shops.remove(&[id]).await.expect("answered");
    }
    assert!(near(shops.clone()).await.is_empty());
    change(1, Some(far(1)));
    shops.add(&[(1, far(1))]).await.expect("answered");
    let left: i64 =
        seawall.client().query(key.as_bytes(), cmd("PTTL").arg(&key)).await.expect("answered");
    assert!(left > 0, "{left}");
    seawall.shutdown().await;
}
