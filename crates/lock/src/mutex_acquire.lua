-- Takes a mutex. Before token.lua, owned.lua and mutex_reenter.lua.
--
-- KEYS  1 the lock  2 its holds  3 its fence
-- ARGV  1 owner  2 hold  3 lease in ms
-- Returns {1, epoch, sequence} when it is held now, {0, ms until it may be free} when it is not.
-- Atomic because the token must rise in the order in which holders follow each other. The same
-- owner and hold sent again, after a reply was lost, finds what it took the first time.
--
-- A free mutex is the usual case, so it comes first and makes its token without the functions that
-- follow: making those anew on each call costs the server as much as a command. The fence is read
-- before the lock is taken: one that holds no token (see foreign.lua) must leave nothing taken.
local last = redis.call('GET', KEYS[3])
if last and #last ~= 16 then
  return redis.error_reply('WRONGTYPE ' .. KEYS[3] .. ' holds no token')
end
if redis.call('SET', KEYS[1], ARGV[1] .. ':' .. ARGV[2], 'NX', 'PX', ARGV[3]) then
  local time = redis.call('TIME')
  local epoch, sequence = time[1] * 1000000 + time[2], 1
  if last then
    local old, count = struct.unpack('>I8I8', last)
    if old >= epoch then epoch = old + 1 end
    sequence = count + 1
  end
  redis.call('SET', KEYS[3], struct.pack('>I8I8', epoch, sequence), 'PX', 86400000)
  return {1, epoch, sequence}
end
