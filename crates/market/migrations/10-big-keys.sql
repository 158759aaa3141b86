CREATE TABLE IF NOT EXISTS big_key_log (
    id BIGINT NOT NULL PRIMARY KEY,
    `key` TEXT NOT NULL,
    type VARCHAR(16) NOT NULL,
    bytes BIGINT NOT NULL,
    members BIGINT NOT NULL,
    node VARCHAR(255) NOT NULL,
    found_at BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL
)
