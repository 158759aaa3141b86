-- Records at the home of a hold which shards have acknowledged its outcome, and returns the others.
--
-- KEYS, ARGV 1 to 2: see shard.lua
-- ARGV  3 reference, 4 attempt, 5 and on: see answered() in shard.lua
-- Returns IS with the record, then the shards that it waits for ("shard:attempt,…" or "-") and the
-- ms for which none of them can have forgotten it; or {NONE}.
--
-- Atomic, because the record that is forgotten later and the record that waits for an answer must
-- be the same.
local field = 'h:' .. ARGV[3]
local r = read(field)
if not r then return {'NONE'} end
if r.attempt == tonumber(ARGV[4]) and #ARGV > 4 and waits(field, r) then
  answered(field, r, 5)
  write(field, r)
  if r.s ~= 'G' and r.s ~= 'H' and not waits(field, r) then finish(field, r, r.s) end
end
local reply = answer('IS', r)
reply[#reply + 1] = waits(field, r) or '-'
reply[#reply + 1] = whole(math.max(0, r.ends - now))
return reply
