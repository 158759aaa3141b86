//! hyperloglog: not built yet.

use super::later::stubs;

stubs!(pfadd, pfcount, pfdebug, pfmerge, pfselftest);
