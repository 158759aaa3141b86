-- What a shop's name is searched by: in small letters of every script. NULL where nobody has folded it
-- yet; the next start does. Longer than a name, since some letters become two.
ALTER TABLE shop ADD COLUMN search_name VARCHAR(512) NULL;
