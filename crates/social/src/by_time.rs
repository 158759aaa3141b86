//! Sorted sets that are copies of what a database says: what timelines and order lists share.
//!
//! One script reads and changes such a set, and only a complete one (see `rebuild`). An addition to a
//! set that has expired would make a set of one that hides the rest; one to a set whose rebuild has
//! read the source too early would be lost: so it adds nothing where the set is not complete, and takes
//! the lease of a rebuild away.

use seawall_client::{
    client::{Script, ScriptInvocation},
    error::Result,
    member::Member,
};

use super::rebuild::{Kind, Rank, Rebuilt, Snapshot};

static BY_TIME: Script = Script::new(include_str!("script/by_time.lua"));

/// The script on a set, in one of its modes.
pub(super) fn call(keys: &Rebuilt, mode: &str) -> ScriptInvocation {
    BY_TIME.on(&[&keys.key, &keys.marker, &keys.lease]).arg(mode)
}

/// A member that the source has, into a set that keeps so many; 0 keeps all. The script says 1 when it
/// was added, 0 when it was there or is too old to be kept, nothing when the set is not complete.
pub(super) fn put(keys: &Rebuilt, member: &[u8], score: i64, keep: usize) -> ScriptInvocation {
    call(keys, "put").arg(score).arg(member).arg(keep)
}

/// The keys of a subject's set.
pub(super) fn keys(key: Vec<u8>, lifetime: std::time::Duration) -> Rebuilt {
    Rebuilt::new(Kind::SortedSet, key, lifetime)
}

/// What goes into Redis: of a member that is named twice the first. `whole` says that the source has no
/// others.
pub(super) fn snapshot<M: Member>(
    members: impl IntoIterator<Item = (M, i64)>,
    whole: bool,
) -> Result<Snapshot> {
    let members = members.into_iter();
    let ranked =
        members.map(|(member, score)| Ok((Rank::Score(score), member.to_member()?.into_owned())));
    Ok(Snapshot::new(ranked.collect::<Result<_>>()?, u8::from(whole)))
}
