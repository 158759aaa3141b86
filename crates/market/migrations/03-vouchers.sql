-- Vouchers, flash sales, and who ordered. `live` is 1 or NULL, so that the unique key counts only
-- orders that stand; `total` is what a sale began with: total = stock + orders that stand.
CREATE TABLE IF NOT EXISTS voucher (
    id BIGINT NOT NULL PRIMARY KEY,
    shop_id BIGINT NOT NULL,
    title VARCHAR(255) NOT NULL,
    sub_title VARCHAR(255) NOT NULL,
    rules VARCHAR(1024) NOT NULL,
    pay_value BIGINT NOT NULL,
    actual_value BIGINT NOT NULL,
    type BIGINT NOT NULL,
    status BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL
);
CREATE INDEX voucher_of_shop ON voucher (shop_id, id);
CREATE TABLE IF NOT EXISTS seckill_voucher (
    voucher_id BIGINT NOT NULL PRIMARY KEY,
    total BIGINT NOT NULL,
    stock BIGINT NOT NULL,
    begin_time BIGINT NOT NULL,
    end_time BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL
);
CREATE INDEX seckill_voucher_by_end ON seckill_voucher (end_time);
CREATE TABLE IF NOT EXISTS voucher_order (
    id BIGINT NOT NULL PRIMARY KEY,
    user_id BIGINT NOT NULL,
    voucher_id BIGINT NOT NULL,
    live BIGINT,
    status VARCHAR(16) NOT NULL,
    pay_type BIGINT,
    pay_time BIGINT,
    use_time BIGINT,
    refund_time BIGINT,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL,
    UNIQUE (user_id, voucher_id, live)
);
CREATE INDEX voucher_order_by_status ON voucher_order (status, create_time);
CREATE INDEX voucher_order_of_voucher ON voucher_order (voucher_id, live);
