//! The cache's promises under faults: lost and late replies, cuts, pauses, kills, fail-overs.

mod races;
