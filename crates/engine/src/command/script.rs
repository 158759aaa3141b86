//! script: not built yet.

use super::later::stubs;

stubs!(
    eval,
    eval_ro,
    evalsha,
    evalsha_ro,
    script_debug,
    script_exists,
    script_flush,
    script_help,
    script_kill,
    script_load
);
