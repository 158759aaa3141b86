-- Carts, as written behind. A row whose count is 0 is a removal that a late update must not undo:
-- `version` decides. `cart_outage` names users whose cart was changed here while Redis was away.
CREATE TABLE IF NOT EXISTS cart (
    user_id BIGINT NOT NULL,
    sku_id BIGINT NOT NULL,
    selected BIGINT NOT NULL,
    count BIGINT NOT NULL,
    add_price BIGINT NOT NULL,
    version BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL,
    PRIMARY KEY (user_id, sku_id)
);
CREATE INDEX cart_by_count ON cart (count, update_time);
CREATE TABLE IF NOT EXISTS cart_outage (
    user_id BIGINT NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL
);
