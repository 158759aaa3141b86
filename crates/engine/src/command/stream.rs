//! stream: not built yet.

use super::later::stubs;

stubs!(
    xack,
    xadd,
    xautoclaim,
    xclaim,
    xdel,
    xgroup_create,
    xgroup_createconsumer,
    xgroup_delconsumer,
    xgroup_destroy,
    xgroup_help,
    xgroup_setid,
    xinfo_consumers,
    xinfo_groups,
    xinfo_help,
    xinfo_stream,
    xlen,
    xpending,
    xrange,
    xread,
    xreadgroup,
    xrevrange,
    xsetid,
    xtrim
);
