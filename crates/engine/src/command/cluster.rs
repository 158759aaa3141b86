//! CLUSTER: this engine is one node without a cluster and says so.

use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::resp::Reply;

const DISABLED: Error = Error::fixed("ERR This instance has cluster support disabled");

macro_rules! disabled {
    ($($name:ident),*) => {$(
        pub(super) fn $name(_: &mut Ctx<'_>, _: &[&[u8]], _: &mut Reply) -> Done {
            Err(DISABLED)
        }
    )*};
}

disabled!(
    cluster_countkeysinslot,
    cluster_getkeysinslot,
    cluster_help,
    cluster_info,
    cluster_keyslot,
    cluster_myid,
    cluster_nodes,
    cluster_shards,
    cluster_slots,
    readonly,
    readwrite
);
