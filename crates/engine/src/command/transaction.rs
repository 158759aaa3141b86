//! transaction: not built yet.

use super::later::stubs;

stubs!(discard, exec, multi, unwatch, watch);
