//! client: not built yet.

use super::later::stubs;

stubs!(
    client_caching,
    client_getname,
    client_getredir,
    client_help,
    client_id,
    client_info,
    client_kill,
    client_list,
    client_no_evict,
    client_pause,
    client_reply,
    client_setname,
    client_tracking,
    client_trackinginfo,
    client_unblock,
    client_unpause
);
