//! keys: not built yet.

use super::later::stubs;

stubs!(copy, del, exists, move_key, rename, renamenx, touch, type_of, unlink);
