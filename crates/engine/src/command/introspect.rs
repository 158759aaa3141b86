//! introspect: not built yet.

use super::later::stubs;

stubs!(
    command,
    command_count,
    command_docs,
    command_getkeys,
    command_getkeysandflags,
    command_help,
    command_info,
    command_list
);
