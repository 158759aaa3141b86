-- Changes of carts that were made here while Redis was away, and that the rows of `cart` do not have
-- yet: they are carried out in Redis, in order of `seq`, and go with the write behind that brings their
-- effect. A count or a selection of -1 is left as it is. In `cart_outage` a user's row gives the numbers
-- out; that of user 0 grows with every announcement that carts are changed here.
CREATE TABLE IF NOT EXISTS cart_pending (
    user_id BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    kind VARCHAR(8) NOT NULL,
    sku_id BIGINT NOT NULL,
    count BIGINT NOT NULL,
    selected BIGINT NOT NULL,
    add_price BIGINT NOT NULL,
    added BIGINT NOT NULL,
    bought BIGINT NOT NULL,
    name VARCHAR(64) NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL,
    PRIMARY KEY (user_id, seq)
);
