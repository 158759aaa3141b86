-- People, what they tell of themselves, and who is logged in.
CREATE TABLE IF NOT EXISTS user (
    id BIGINT NOT NULL PRIMARY KEY,
    phone VARCHAR(11) NOT NULL UNIQUE,
    nick_name VARCHAR(64) NOT NULL,
    icon VARCHAR(255) NOT NULL,
    role VARCHAR(16) NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS user_info (
    user_id BIGINT NOT NULL PRIMARY KEY,
    city VARCHAR(64) NOT NULL,
    introduce VARCHAR(255) NOT NULL,
    fans BIGINT NOT NULL,
    followee BIGINT NOT NULL,
    gender BIGINT NOT NULL,
    birthday VARCHAR(10),
    credits BIGINT NOT NULL,
    level BIGINT NOT NULL,
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
CREATE INDEX session_of_user ON session (user_id);
CREATE INDEX session_by_end ON session (expires);
