-- Returns a page of a bucket's members.
--
-- KEYS[1]  gate
-- KEYS[2]  bucket
-- ARGV[1]  'HSCAN', 'SSCAN' or 'ZSCAN'
-- ARGV[2]  cursor
-- ARGV[3]  approximate number of members
-- ARGV[4]  most bytes of the values of a hash; with more, only the fields are returned
--
-- Returns  {state of the gate, next cursor, 'whole' or 'fields', members…}
--
-- Atomic, because a bucket that began to move meanwhile must not be treated as complete.

local state = redis.call('HGET', KEYS[1], 'state') or 'absent'
local page = redis.call(ARGV[1], KEYS[2], ARGV[2], 'COUNT', ARGV[3])
local items, shape = page[2], 'whole'
if ARGV[1] == 'HSCAN' then
  local bytes = 0
  for _, item in ipairs(items) do
    bytes = bytes + #item
  end
  if bytes > tonumber(ARGV[4]) then
    local fields = {}
    for index = 1, #items, 2 do
      fields[#fields + 1] = items[index]
    end
    items, shape = fields, 'fields'
  end
end
return {state, page[1], shape, items}
