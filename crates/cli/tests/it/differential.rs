//! Random commands, compared with redis-server: 5 % of what `cargo xtask soak` does.
//!
//! The seed is that of the commit, so that a landing repeats what its author saw: see [`seed`].

use seawall_testkit::differential::{Differential, Limits, damaged_bytes};
use seawall_testkit::{ServerBuilder, seed};

use crate::seawall_builder;

const COMMANDS: u64 = 50_000;

#[test]
fn fifty_thousand_random_commands_are_answered_as_redis_answers_them() {
    let mut test = Differential::new(ServerBuilder::redis(), seawall_builder()).unwrap();
    let limits = Limits { seed: seed(), commands: COMMANDS, differences: 10 };
    let report = test.run(limits, |_| {}).unwrap();
    assert!(report.found.is_empty(), "{report}");
}

#[test]
fn damaged_requests_are_refused_as_redis_refuses_them() {
    let found = damaged_bytes(&ServerBuilder::redis(), &seawall_builder(), seed(), 5000).unwrap();
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{}", shown.join("\n"));
}
