-- Starts a new generation of a namespace or a tag: all entries of older ones are misses. Also begins
-- the counter of a namespace's messages.
--
-- KEYS[1]  generation, or counter
-- ARGV[1]  'bump', or 'begin' to start one only where there is none
--
-- Returns  the generation.
--
-- Atomic, because two at once must not end in the same generation. It is taken from the server's
-- time, so that one that was lost never comes back.

-- #include time.lua
local old = tonumber(redis.call('GET', KEYS[1]) or '0')
if ARGV[1] == 'begin' and old > 0 then
  return old
end
local new = math.max(micros, old + 1)
redis.call('SET', KEYS[1], string.format('%.0f', new))
return new
