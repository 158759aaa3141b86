//! info: not built yet.

use super::later::stubs;

stubs!(info);
