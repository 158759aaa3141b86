-- Begins to move a slice of a bucket, or returns the slice that is moving.
--
-- KEYS[1]  gate
-- KEYS[2]  bucket
-- KEYS[3]  members that are moving
-- ARGV[1]  'hash', 'set' or 'zset'
-- ARGV[2]  most members of a slice
-- ARGV[3]  most bytes of a slice
-- ARGV[4]  for how long a closed gate is kept, in milliseconds
-- ARGV[5]  'begin', or 'help' to look only for a slice that is moving
--
-- Returns  {'gone'}                               nothing is left
--          {'none'}                               nothing is moving (for a helper)
--          {'slice', number, member, value, …}    what must be copied; values are fields' values,
--                                                 scores, or '' in a set
--
-- Atomic, because a moving slice must not change until it has arrived: writers that find it help.

local state = redis.call('HGET', KEYS[1], 'state')
if state == 'gone' then
  return {'gone'}
end
local number = tonumber(redis.call('HGET', KEYS[1], 'slice') or '0')
local members = redis.call('SMEMBERS', KEYS[3])
if #members == 0 then
  if ARGV[5] == 'help' then
    return {'none'}
  end
  if ARGV[1] == 'hash' then
    members = redis.call('HRANDFIELD', KEYS[2], ARGV[2])
  elseif ARGV[1] == 'set' then
    members = redis.call('SRANDMEMBER', KEYS[2], ARGV[2])
  else
    members = redis.call('ZRANGE', KEYS[2], 0, ARGV[2] - 1)
  end
  if #members == 0 then
    redis.call('HSET', KEYS[1], 'state', 'gone')
    redis.call('PEXPIRE', KEYS[1], ARGV[4])
    return {'gone'}
  end
  number = number + 1
  redis.call('HSET', KEYS[1], 'state', 'moving', 'slice', number)
  local left = tonumber(ARGV[3])
  for _, member in ipairs(members) do
    left = left - #member
    if ARGV[1] == 'hash' then
      left = left - redis.call('HSTRLEN', KEYS[2], member)
    end
    if left < 0 and redis.call('EXISTS', KEYS[3]) == 1 then
      break
    end
    redis.call('SADD', KEYS[3], member)
  end
  members = redis.call('SMEMBERS', KEYS[3])
end
local answer = {'slice', number}
for _, member in ipairs(members) do
  local value = ''
  if ARGV[1] == 'hash' then
    value = redis.call('HGET', KEYS[2], member)
  elseif ARGV[1] == 'zset' then
    value = redis.call('ZSCORE', KEYS[2], member)
  end
  answer[#answer + 1] = member
  answer[#answer + 1] = value
end
return answer
