//! function: not built yet.

use super::later::stubs;

stubs!(
    fcall,
    fcall_ro,
    function_delete,
    function_flush,
    function_help,
    function_kill,
    function_list,
    function_load,
    function_stats
);
