-- Goods, their stock, and every movement of it. The unique key makes a movement happen once;
-- `applied` is 1 when the stock in Redis has followed a movement, so that whatever dies in between
-- is caught up with.
CREATE TABLE IF NOT EXISTS sku (
    id BIGINT NOT NULL PRIMARY KEY,
    name VARCHAR(128) NOT NULL,
    price BIGINT NOT NULL,
    vip_price BIGINT NOT NULL,
    image VARCHAR(255) NOT NULL,
    status BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL
);
CREATE INDEX sku_by_status ON sku (status, id);
CREATE TABLE IF NOT EXISTS inventory (
    sku_id BIGINT NOT NULL PRIMARY KEY,
    num BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS inventory_log (
    id BIGINT NOT NULL PRIMARY KEY,
    sku_id BIGINT NOT NULL,
    delta BIGINT NOT NULL,
    before_num BIGINT NOT NULL,
    after_num BIGINT NOT NULL,
    reason VARCHAR(16) NOT NULL,
    ref VARCHAR(64) NOT NULL,
    applied BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL,
    UNIQUE (ref, reason, sku_id)
);
CREATE INDEX inventory_log_of_sku ON inventory_log (sku_id, create_time);
CREATE INDEX inventory_log_by_applied ON inventory_log (applied, create_time);
