CREATE TABLE IF NOT EXISTS user (
    id BIGINT NOT NULL PRIMARY KEY,
    phone VARCHAR(11) NOT NULL UNIQUE,
    nick_name VARCHAR(64) NOT NULL,
    icon VARCHAR(255) NOT NULL,
    role VARCHAR(16) NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS session (
    token_hash VARCHAR(64) NOT NULL PRIMARY KEY,
    user_id BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    until BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS shop (
    id BIGINT NOT NULL PRIMARY KEY,
    owner_id BIGINT NOT NULL,
    name VARCHAR(128) NOT NULL,
    type_id BIGINT NOT NULL,
    images VARCHAR(1024) NOT NULL,
    area VARCHAR(128) NOT NULL,
    address VARCHAR(255) NOT NULL,
    x DOUBLE NOT NULL,
    y DOUBLE NOT NULL,
    avg_price BIGINT NOT NULL,
    sold BIGINT NOT NULL,
    comments BIGINT NOT NULL,
    score BIGINT NOT NULL,
    open_hours VARCHAR(32) NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL
);
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
CREATE TABLE IF NOT EXISTS seckill_voucher (
    voucher_id BIGINT NOT NULL PRIMARY KEY,
    stock BIGINT NOT NULL,
    begin_time BIGINT NOT NULL,
    end_time BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL
);
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
