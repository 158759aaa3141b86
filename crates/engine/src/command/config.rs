//! config: not built yet.

use super::later::stubs;

stubs!(config_get, config_help, config_resetstat, config_rewrite, config_set);
