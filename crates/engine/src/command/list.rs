//! list: not built yet.

use super::later::stubs;

stubs!(
    blmove, blmpop, blpop, brpop, brpoplpush, lindex, linsert, llen, lmove, lmpop, lpop, lpos,
    lpush, lpushx, lrange, lrem, lset, ltrim, rpop, rpoplpush, rpush, rpushx
);
