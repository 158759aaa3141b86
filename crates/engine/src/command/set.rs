//! set: not built yet.

use super::later::stubs;

stubs!(
    sadd,
    scard,
    sdiff,
    sdiffstore,
    sinter,
    sintercard,
    sinterstore,
    sismember,
    smembers,
    smismember,
    smove,
    spop,
    srandmember,
    srem,
    sscan,
    sunion,
    sunionstore
);
