//! connection: not built yet.

use super::later::stubs;

stubs!(auth, echo, hello, ping, quit, reset, select);
