-- Carts, as written behind. A row whose count is 0 is a removal that a late update must not undo:
-- `version` decides.
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
