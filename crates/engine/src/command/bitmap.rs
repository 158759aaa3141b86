//! bitmap: not built yet.

use super::later::stubs;

stubs!(bitcount, bitfield, bitfield_ro, bitop, bitpos, getbit, setbit);
