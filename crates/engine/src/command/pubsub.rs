//! pubsub: not built yet.

use super::later::stubs;

stubs!(
    psubscribe,
    publish,
    pubsub_channels,
    pubsub_help,
    pubsub_numpat,
    pubsub_numsub,
    pubsub_shardchannels,
    pubsub_shardnumsub,
    punsubscribe,
    spublish,
    ssubscribe,
    subscribe,
    sunsubscribe,
    unsubscribe
);
