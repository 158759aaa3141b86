//! The tiers: copies in memory ([`local`]), bytes in Redis ([`remote`]).

pub(crate) mod breakers;
pub(crate) mod local;
pub(crate) mod local_budget;
pub(crate) mod remote;
pub(crate) mod remote_invalidate;
pub(crate) mod remote_lease;
pub(crate) mod remote_put;
pub(crate) mod remote_replies;
pub(crate) mod remote_tags;
