//! server: not built yet.

use super::later::stubs;

stubs!(
    wait,
    bgrewriteaof,
    bgsave,
    flushall,
    flushdb,
    lastsave,
    lolwut,
    role,
    save,
    shutdown,
    swapdb,
    time
);
