//! geo: not built yet.

use super::later::stubs;

stubs!(
    geoadd,
    geodist,
    geohash,
    geopos,
    georadius,
    georadius_ro,
    georadiusbymember,
    georadiusbymember_ro,
    geosearch,
    geosearchstore
);
