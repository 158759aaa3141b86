-- Shops and their kinds.
CREATE TABLE IF NOT EXISTS shop_type (
    id BIGINT NOT NULL PRIMARY KEY,
    name VARCHAR(64) NOT NULL,
    icon VARCHAR(255) NOT NULL,
    sort BIGINT NOT NULL,
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
CREATE INDEX shop_of_type ON shop (type_id, id);
CREATE INDEX shop_by_name ON shop (name);
