-- Who follows whom.
CREATE TABLE IF NOT EXISTS follow (
    user_id BIGINT NOT NULL,
    follow_user_id BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL,
    PRIMARY KEY (user_id, follow_user_id)
);
CREATE INDEX follow_by_followed ON follow (follow_user_id, user_id);
