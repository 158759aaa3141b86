-- Sessions that were logged out while Redis was away, until it knows.
CREATE TABLE IF NOT EXISTS session_end (
    token_hash VARCHAR(64) NOT NULL PRIMARY KEY,
    create_time BIGINT NOT NULL
);
