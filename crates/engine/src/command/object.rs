//! object: not built yet.

use super::later::stubs;

stubs!(
    object_encoding,
    object_freq,
    object_help,
    object_idletime,
    object_refcount,
    memory_doctor,
    memory_help,
    memory_malloc_stats,
    memory_purge,
    memory_stats,
    memory_usage
);
