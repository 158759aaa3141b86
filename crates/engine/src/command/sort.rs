//! sort: not built yet.

use super::later::stubs;

stubs!(sort, sort_ro);
