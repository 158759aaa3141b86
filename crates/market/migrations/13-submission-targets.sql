-- What a named submission was for, so that its name is not taken for another thing's.
ALTER TABLE submission ADD COLUMN target VARCHAR(64) NOT NULL DEFAULT '';
