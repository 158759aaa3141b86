-- Orders of goods. An order has the id of its checkout, so that one checkout makes one order; the
-- unique key lets one submission make one. `refund_due` is 1 while money is owed back. `home` of an
-- item is the shard that decided about its stock.
CREATE TABLE IF NOT EXISTS orders (
    id BIGINT NOT NULL PRIMARY KEY,
    user_id BIGINT NOT NULL,
    status VARCHAR(16) NOT NULL,
    total BIGINT NOT NULL,
    idempotency_key VARCHAR(64) NOT NULL,
    pay_begun BIGINT,
    pay_time BIGINT,
    refund_due BIGINT NOT NULL,
    refund_time BIGINT,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL,
    UNIQUE (user_id, idempotency_key)
);
CREATE INDEX orders_of_user ON orders (user_id, create_time, id);
CREATE INDEX orders_by_status ON orders (status, create_time);
CREATE INDEX orders_by_refund ON orders (refund_due, update_time);
CREATE INDEX orders_by_time ON orders (create_time);
CREATE TABLE IF NOT EXISTS order_item (
    order_id BIGINT NOT NULL,
    sku_id BIGINT NOT NULL,
    count BIGINT NOT NULL,
    price BIGINT NOT NULL,
    name VARCHAR(128) NOT NULL,
    home BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL,
    PRIMARY KEY (order_id, sku_id)
);
