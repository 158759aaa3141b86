-- Ids come in blocks, one for each process: what is listed by age is in order of time.
CREATE INDEX blog_comment_by_time ON blog_comment (blog_id, parent_id, create_time, id);
CREATE INDEX voucher_order_of_user ON voucher_order (user_id, create_time, id);
