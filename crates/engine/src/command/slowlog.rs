//! slowlog: not built yet.

use super::later::stubs;

stubs!(monitor, slowlog_get, slowlog_help, slowlog_len, slowlog_reset);
