//! CLIENT TRACKING and its relatives: not built yet.

use super::later::stubs;

stubs!(client_caching, client_getredir, client_tracking, client_trackinginfo);
