//! scan: not built yet.

use super::later::stubs;

stubs!(keys, randomkey, scan, dbsize);
