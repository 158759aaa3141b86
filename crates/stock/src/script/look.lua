-- Handles what is due, and returns the levels of the shard.
--
-- KEYS, ARGV 1 to 2: see shard.lua
-- ARGV  3 maximum records to handle, 4 ms until the same parts are named again; 0 to name none
-- Returns {LEVELS, received, held, sold, left, what may still be due: HOLDS that have ended, OTHER
-- or NOTHING, units of parts whose home does not know them, then "attempt home reference" for each
-- part whose home must be asked, and "! reference" for each hold whose parts must be told…}.
--
-- Atomic, because the four numbers must be from one moment.
local holds, more = sweep(tonumber(ARGV[3]))
local has = redis.call('HMGET', shard, 'received', 'held', 'sold', 'left', 'astray')
local reply = {'LEVELS', has[1], has[2], has[3], has[4],
  holds and 'HOLDS' or more and 'OTHER' or 'NOTHING', has[5] or '0'}
if ARGV[4] == '0' then return reply end
local fields = redis.call('ZRANGEBYSCORE', parts, '-inf', whole(now), 'LIMIT', 0, ARGV[3])
if #fields == tonumber(ARGV[3]) and not holds then reply[6] = 'OTHER' end
for _, field in ipairs(fields) do
  local r = read(field)
  local at_home = string.sub(field, 1, 2) == 'h:'
  if r and at_home and r.s ~= 'G' and r.s ~= 'H' and waits(field, r) then
    redis.call('ZADD', parts, whole(now + ARGV[4]), field)
    reply[#reply + 1] = '! ' .. string.sub(field, 3)
  elseif r and not at_home and r.s == 'H' then
    redis.call('ZADD', parts, whole(now + ARGV[4]), field)
    reply[#reply + 1] = whole(r.attempt) .. ' ' .. r.rest .. ' ' .. string.sub(field, 3)
  else
    redis.call('ZREM', parts, field)
  end
end
return reply
