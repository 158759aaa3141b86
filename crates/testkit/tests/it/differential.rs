//! The differential tester itself: it knows the whole command table, finds nothing between two
//! equal servers, and finds what is planted.

use std::collections::BTreeMap;

use seawall_testkit::differential::{Differential, Limits, damaged_bytes, draws};
use seawall_testkit::{ServerBuilder, ServerProcess};

/// Fewest draws of any command among a million.
const FEWEST_PER_MILLION: u64 = 500;

#[test]
fn every_command_of_the_table_is_drawn_often() {
    let server = ServerProcess::redis().unwrap();
    let table = server.connect().unwrap().call(&["COMMAND", "LIST"]).unwrap();
    let drawn: BTreeMap<String, u64> = draws(1, 1_000_000);
    for command in table.items() {
        let name = command.text().to_uppercase();
        if name.contains('|') {
            continue;
        }
        let count = drawn.get(&name).copied().unwrap_or_default();
        assert!(count >= FEWEST_PER_MILLION, "{name} is drawn {count} times in a million");
    }
}

#[test]
fn two_equal_servers_do_not_differ() {
    let mut test = Differential::new(ServerBuilder::redis(), ServerBuilder::redis()).unwrap();
    let limits = Limits { seed: 20_240_613, commands: 30_000, differences: 3 };
    let report = test.run(limits, |_| {}).unwrap();
    assert!(report.found.is_empty(), "{report}");
    assert!(report.commands >= 30_000);
}

/// The other server lacks one command of 240.
#[test]
fn a_planted_difference_is_found_and_shrunk() {
    let ours = ServerBuilder::redis().args(["--rename-command", "LPOS", ""]);
    let mut test = Differential::new(ServerBuilder::redis(), ours).unwrap();
    let limits = Limits { seed: 7, commands: 100_000, differences: 1 };
    let report = test.run(limits, |_| {}).unwrap();
    let found = report.found.first().expect("the planted difference is found");
    assert_eq!(found.commands.len(), 1, "shrunk to the one command: {found}");
    assert!(found.commands[0].to_uppercase().contains("LPOS"), "{found}");
}

#[test]
fn damaged_bytes_are_answered_alike_by_equal_servers() {
    let redis = ServerBuilder::redis();
    let found = damaged_bytes(&redis, &redis, 5, 3000).unwrap();
    assert!(found.is_empty(), "{}", found[0]);
}
