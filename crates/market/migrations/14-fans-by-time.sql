-- How many fans somebody has won lately.
CREATE INDEX follow_by_time ON follow (follow_user_id, create_time);
