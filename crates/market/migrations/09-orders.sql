-- Orders of goods. The unique keys let one checkout and one submission make one order.
CREATE TABLE IF NOT EXISTS orders (
    id BIGINT NOT NULL PRIMARY KEY,
    user_id BIGINT NOT NULL,
    status VARCHAR(16) NOT NULL,
    total BIGINT NOT NULL,
    idempotency_key VARCHAR(64) NOT NULL,
    checkout_id BIGINT NOT NULL UNIQUE,
    pay_time BIGINT,
    refund_time BIGINT,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL,
    UNIQUE (user_id, idempotency_key)
);
CREATE INDEX orders_of_user ON orders (user_id, create_time, id);
CREATE INDEX orders_by_status ON orders (status, create_time);
CREATE TABLE IF NOT EXISTS order_item (
    order_id BIGINT NOT NULL,
    sku_id BIGINT NOT NULL,
    count BIGINT NOT NULL,
    price BIGINT NOT NULL,
    name VARCHAR(128) NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL,
    PRIMARY KEY (order_id, sku_id)
);
