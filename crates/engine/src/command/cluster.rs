//! cluster: not built yet.

use super::later::stubs;

stubs!(
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
