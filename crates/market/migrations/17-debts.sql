-- What Redis could not be told of a change: who lives when it answers does it, and takes the row out.
CREATE TABLE IF NOT EXISTS debt (
    id BIGINT NOT NULL PRIMARY KEY,
    kind VARCHAR(16) NOT NULL,
    subject BIGINT NOT NULL,
    detail BIGINT NOT NULL,
    create_time BIGINT NOT NULL
);
