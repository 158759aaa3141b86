-- Notes, what people say to them, and who likes them. `submit_hash` tells a form that was sent twice.
CREATE TABLE IF NOT EXISTS blog (
    id BIGINT NOT NULL PRIMARY KEY,
    shop_id BIGINT NOT NULL,
    user_id BIGINT NOT NULL,
    title VARCHAR(255) NOT NULL,
    images VARCHAR(2048) NOT NULL,
    content VARCHAR(4096) NOT NULL,
    liked BIGINT NOT NULL,
    comments BIGINT NOT NULL,
    submit_hash VARCHAR(64) UNIQUE,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL
);
CREATE INDEX blog_of_user ON blog (user_id, create_time, id);
CREATE INDEX blog_of_shop ON blog (shop_id, create_time, id);
CREATE INDEX blog_by_likes ON blog (liked, id);
CREATE INDEX blog_by_time ON blog (create_time, id);
CREATE TABLE IF NOT EXISTS blog_comment (
    id BIGINT NOT NULL PRIMARY KEY,
    user_id BIGINT NOT NULL,
    blog_id BIGINT NOT NULL,
    parent_id BIGINT NOT NULL,
    answer_id BIGINT NOT NULL,
    content VARCHAR(1024) NOT NULL,
    liked BIGINT NOT NULL,
    status BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL
);
CREATE INDEX blog_comment_of_blog ON blog_comment (blog_id, parent_id, id);
CREATE TABLE IF NOT EXISTS blog_like (
    blog_id BIGINT NOT NULL,
    user_id BIGINT NOT NULL,
    time BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL,
    PRIMARY KEY (blog_id, user_id)
);
CREATE INDEX blog_like_by_time ON blog_like (blog_id, time, user_id);
