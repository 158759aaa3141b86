//! Places: the values of the documents, pages, and members that dangle.

use seawall::{
    Error,
    social::{Place, PlacesIn, Point},
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    distances_are_those_of_the_documents
    pages_ascend_end_and_skip_what_dangles
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
