-- Submissions that a client has named, and what they made: the same name makes the same once.
CREATE TABLE IF NOT EXISTS submission (
    user_id BIGINT NOT NULL,
    kind VARCHAR(16) NOT NULL,
    name VARCHAR(64) NOT NULL,
    result BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL,
    PRIMARY KEY (user_id, kind, name)
);
CREATE INDEX submission_by_time ON submission (create_time);
