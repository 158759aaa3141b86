-- Rebuilds a shard from a ledger.
--
-- KEYS  1 to 5 as in shard.lua, 6 to 9 the keys that replace 2 to 5
-- ARGV  1 step, then
--       BEGIN:  nothing; from now on all movements are refused
--       ADD:    2 epoch, then field, record and due ms of each record; ms 0: a part that asks its
--               home, or a hold whose parts are told; ms -1: not a record, but belongs to one
--       FINISH: 2 epoch, 3 received, 4 held, 5 sold
--       ABORT:  2 epoch; the old data is used again; if there was none, the shard is lost as before
-- Returns {OK, epoch}, or {EPOCH, epoch} if another rebuild came in between.
--
-- Atomic, because the shard must change from the old state to the new one in one step. The new
-- epoch makes the shard refuse movements that were sent before it.
-- #include time.lua
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if ARGV[1] == 'BEGIN' then
  epoch = string.format('%.0f', math.max((tonumber(epoch) or 0) + 1, now))
  redis.call('HSET', KEYS[1], 'epoch', epoch, 'phase', 'rebuilding')
  redis.call('UNLINK', KEYS[6], KEYS[7], KEYS[8], KEYS[9])
  return {'OK', epoch}
end
if epoch ~= ARGV[2] then return {'EPOCH', epoch or '0'} end
if ARGV[1] == 'ADD' then
  for i = 3, #ARGV, 3 do
    redis.call('HSET', KEYS[6], ARGV[i], ARGV[i + 1])
    if ARGV[i + 2] == '-1' then
      -- Nothing is due.
    elseif ARGV[i + 2] == '0' then
      redis.call('ZADD', KEYS[8], string.format('%.0f', now), ARGV[i])
    else
      -- A hold ends; any other record is forgotten.
      local held = string.sub(ARGV[i + 1], 1, 1) == 'H'
      redis.call('ZADD', held and KEYS[7] or KEYS[9], ARGV[i + 2], ARGV[i])
    end
  end
  return {'OK', epoch}
end
if ARGV[1] == 'ABORT' then
  redis.call('UNLINK', KEYS[6], KEYS[7], KEYS[8], KEYS[9])
  if redis.call('HEXISTS', KEYS[1], 'received') == 1 then
    redis.call('HSET', KEYS[1], 'phase', 'open')
  else
    redis.call('UNLINK', KEYS[1])
  end
  return {'OK', epoch}
end
if redis.call('HGET', KEYS[1], 'phase') ~= 'rebuilding' then return {'OK', epoch} end
redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
for i = 6, 9 do
  if redis.call('EXISTS', KEYS[i]) == 1 then redis.call('RENAME', KEYS[i], KEYS[i - 4]) end
end
redis.call('HSET', KEYS[1], 'phase', 'open', 'received', ARGV[3], 'held', ARGV[4], 'sold', ARGV[5],
  'astray', 0, 'rebuilt', epoch, 'left', string.format('%.0f', ARGV[3] - ARGV[4] - ARGV[5]))
return {'OK', epoch}
