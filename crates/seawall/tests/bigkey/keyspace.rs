//! Which keys there are, on all nodes of a backend.

use std::collections::BTreeSet;

use seawall::{Seawall, cmd};

/// All keys that look like this, on all nodes.
pub(crate) async fn keys(seawall: &Seawall, pattern: &str) -> Vec<String> {
    // A name in each third of the slots leads to each node of the stand's Cluster.
    let slot = |name: &str| crc16::State::<crc16::XMODEM>::calculate(name.as_bytes()) % 16_384;
    let ways = (0..3).filter_map(|third| {
        let middle = third * 5461 + 1000..third * 5461 + 4000;
        (0..1000).map(|n| format!("way-{n}")).find(|name| middle.contains(&slot(name)))
    });
    let mut all = BTreeSet::new();
    for way in ways {
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(1000);
            let (next, keys): (String, Vec<String>) =
                seawall.client().query(way.as_bytes(), &scan).await.expect("it answers");
            all.extend(keys);
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
    }
    all.into_iter().collect()
}
