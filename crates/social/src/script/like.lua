-- Adds, removes or toggles a like.
--
-- KEYS  1 likes (zset member -> ms), 2 the remembered outcome of this toggle
-- ARGV  1 'like', 'unlike' or 'toggle', 2 member, 3 for how long an outcome is remembered, in ms
-- Returns 0 if nothing changed, 1 if the member was added, 2 if it was removed.
--
-- Atomic, because the direction of a toggle and the change must be one step: of two concurrent
-- clicks the second must see the first. The time is taken here, so that "first" means first on the
-- server.
local mode = ARGV[1]
if mode == 'toggle' then
  local known = redis.call('GET', KEYS[2])
  if known then return tonumber(known) end
end
local outcome
if mode ~= 'like' and redis.call('ZREM', KEYS[1], ARGV[2]) == 1 then
  outcome = 2
elseif mode == 'unlike' then
  return 0
else
  -- #include time.lua
  local score = string.format('%.0f', now)
  if redis.call('ZADD', KEYS[1], 'NX', score, ARGV[2]) == 0 then return 0 end
  outcome = 1
end
if mode == 'toggle' then redis.call('SET', KEYS[2], outcome, 'PX', ARGV[3]) end
return outcome
