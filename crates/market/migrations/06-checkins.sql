-- Days on which somebody signed in, as dates of the business zone.
CREATE TABLE IF NOT EXISTS sign (
    user_id BIGINT NOT NULL,
    date VARCHAR(10) NOT NULL,
    is_backup BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL,
    PRIMARY KEY (user_id, date)
);
