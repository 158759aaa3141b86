//! Sorted sets that are copies of database rows: the shared part of timelines and order lists.
//!
//! One script reads and changes such a set, and only a complete one (see `rebuild`). Adding to a
//! set that has expired would create a set of one member that hides the rest. Adding to a set whose
//! rebuild has read the source too early would be lost. So the script adds nothing to a set that is
//! not complete, and takes the lease away from a rebuild.

use seawall_client::{
    client::{Script, ScriptInvocation},
    error::Result,
    member::Member,
};

use super::rebuild::{Rank, Rebuilt, Snapshot};

static BY_TIME: Script = Script::new(include_str!("script/by_time.lua"));

/// Returns the script call on a set, in one of its modes.
pub(super) fn call(copy: &Rebuilt, mode: &str) -> ScriptInvocation {
    BY_TIME.on(&[&copy.key, &copy.marker, &copy.lease]).arg(mode)
}

/// Returns the call that adds a member of the source to a set that keeps `max_kept` members; 0 keeps
/// all.
///
/// The script returns 1 if the member was added, 0 if it existed or is too old to be kept, and
/// nothing if the set is not complete.
pub(super) fn put(copy: &Rebuilt, member: &[u8], score: i64, keep: usize) -> ScriptInvocation {
    call(copy, "put").arg(score).arg(member).arg(keep)
}

/// Returns the snapshot that is written to Redis. If a member occurs twice, the first one counts.
/// `whole` says that the source has no other members.
pub(super) fn snapshot<M: Member>(
    members: impl IntoIterator<Item = (M, i64)>,
    whole: bool,
) -> Result<Snapshot> {
    let members = members.into_iter();
    let ranked =
        members.map(|(member, score)| Ok((Rank::Score(score), member.to_member()?.into_owned())));
    Ok(Snapshot::new(ranked.collect::<Result<_>>()?, u8::from(whole)))
}
