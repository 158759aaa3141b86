-- Acquires a mutex. Before token.lua, owned.lua and mutex_reenter.lua.
--
-- KEYS  1 the lock  2 its holds  3 its fence
-- ARGV  1 owner  2 hold  3 lease in ms
-- Returns {1, epoch, sequence} if it is held now, {0, ms until it may be free} otherwise.
-- Atomic because the token must rise in the order of the holders. If the same owner and hold are
-- sent again, after a lost reply, they find what they acquired the first time.
--
-- A free mutex is the usual case, so it comes first and creates its token without the functions
-- that follow: defining those on each call costs the server as much as a command. The fence is read
-- before the lock is acquired: if it holds no token (see foreign.lua), nothing must stay acquired.
local last = redis.call('GET', KEYS[3])
if last and #last ~= 16 then
  return redis.error_reply('WRONGTYPE ' .. KEYS[3] .. ' holds no token')
end
if redis.call('SET', KEYS[1], ARGV[1] .. ':' .. ARGV[2], 'NX', 'PX', ARGV[3]) then
  -- #include time.lua
  local epoch, sequence = micros, 1
  if last then
    local old, count = struct.unpack('>I8I8', last)
    if old >= epoch then epoch = old + 1 end
    sequence = count + 1
  end
  redis.call('SET', KEYS[3], struct.pack('>I8I8', epoch, sequence), 'PX', 86400000)
  return {1, epoch, sequence}
end
