//! debug: not built yet.

use super::later::stubs;

stubs!(debug);
