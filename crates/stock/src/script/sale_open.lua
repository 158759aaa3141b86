-- Opens a flash sale, in steps, so that a long list of earlier buyers does not block the server.
--
-- KEYS  1 sale, 2 buyers {user: reference}, 3 receipts {reference: receipt}
-- ARGV  1 step, 2 reference of the opening, 3 number of the call, then
--       BEGIN:  4 stock, 5 begin, 6 end, 7 ms that the keys outlive the sale, 8 base of the times:
--               now or epoch
--       ADD:    user and reference of buyers that already have their unit
--       FINISH: nothing
-- Returns {word, reference}: GO_ON, OPENED, ALREADY (this opening was finished before), RUNNING
-- with the reference of the other opening that came first, ENDED (so long ago that nothing would be
-- kept), or GONE if the unfinished opening does not exist any more.
--
-- Atomic, because a sale that is open before its buyers are known would sell to them twice, and
-- only one of two concurrent openings may set the stock. An open sale is never set again.
local has = redis.call('HMGET', KEYS[1], 'state', 'opening', 'gone', 'call')
if has[1] == 'open' then
  return {has[2] == ARGV[2] and 'ALREADY' or 'RUNNING', has[2]}
end
if ARGV[1] == 'BEGIN' then
  -- #include time.lua
  local from = 0
  if ARGV[8] == 'now' then from = now end
  local function at(ms) return string.format('%.0f', from + ms) end
  local gone = at(ARGV[6] + ARGV[7])
  if tonumber(gone) <= now then return {'ENDED', ARGV[2]} end
  -- An opening that was never finished is restarted, whichever process began it.
  redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
  redis.call('HSET', KEYS[1], 'state', 'opening', 'opening', ARGV[2], 'call', ARGV[3], 'received', ARGV[4],
    'left', ARGV[4], 'begin', at(ARGV[5]), 'end', at(ARGV[6]), 'gone', gone,
    'taken', 0, 'back', 0, 'confirmed', 0)
  redis.call('PEXPIREAT', KEYS[1], gone)
  return {'GO_ON', ARGV[2]}
end
if not has[1] then return {'GONE', ARGV[2]} end
if has[1] ~= 'opening' or has[4] ~= ARGV[3] then return {'RUNNING', has[2] or ''} end
if ARGV[1] == 'ADD' then
  -- All keys are read before the first is changed.
  redis.call('HLEN', KEYS[2])
  redis.call('HLEN', KEYS[3])
  for i = 4, #ARGV, 2 do
    if redis.call('HSETNX', KEYS[2], ARGV[i], ARGV[i + 1]) == 1 then
      local count = redis.call('HINCRBY', KEYS[1], 'taken', 1)
      redis.call('HINCRBY', KEYS[1], 'confirmed', 1)
      redis.call('HINCRBY', KEYS[1], 'received', 1)
      redis.call('HSET', KEYS[3], ARGV[i + 1], 'C ' .. count .. ' 0 - ' .. ARGV[i])
    end
  end
  redis.call('PEXPIREAT', KEYS[2], has[3])
  redis.call('PEXPIREAT', KEYS[3], has[3])
  return {'GO_ON', ARGV[2]}
end
redis.call('HSET', KEYS[1], 'state', 'open')
return {'OPENED', ARGV[2]}
