//! hash: not built yet.

use super::later::stubs;

stubs!(
    hdel,
    hexists,
    hget,
    hgetall,
    hincrby,
    hincrbyfloat,
    hkeys,
    hlen,
    hmget,
    hmset,
    hrandfield,
    hscan,
    hset,
    hsetnx,
    hstrlen,
    hvals
);
