-- Runs one command for each of several members, if they are in this bucket.
--
-- KEYS[1]  gate: state of the bucket
-- KEYS[2]  bucket
-- KEYS[3]  members that are moving to another bucket
-- ARGV[1]  command that tells whether a member exists: HEXISTS, SISMEMBER or ZSCORE
-- ARGV[2]  'read' or 'write'
-- ARGV[3]  command
-- ARGV[4]  number of its arguments per member
-- ARGV[5]  which of them is the member, from 1
-- ARGV[6]  most bytes of the replies
-- ARGV[7…] the arguments, member by member
--
-- Returns  {'absent'}   there is no gate: the bucket is unused yet, or is of an old generation
--          {'gone'}     everything has moved
--          {'here', …}  for each member {0, reply}; {1} if it must be looked up in the bucket that
--                       this one moves to; {2} if it is moving and cannot be written. Members
--                       beyond the byte limit are left out.
--
-- Atomic, because a bucket that begins to move must not be written to as if it did not: a member
-- that is not in a moving bucket never gets into it again.

local state = redis.call('HGET', KEYS[1], 'state')
if not state then
  return {'absent'}
elseif state == 'gone' then
  return {'gone'}
end
local width, at, left = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local answer = {'here'}
for first = 7, #ARGV, width do
  local member = ARGV[first + at - 1]
  local found = 0
  if state == 'moving' then
    local there = redis.call(ARGV[1], KEYS[2], member)
    if not there or there == 0 then
      found = 1
    elseif ARGV[2] == 'write' and redis.call('SISMEMBER', KEYS[3], member) == 1 then
      found = 2
    end
  end
  if found == 0 then
    local reply = redis.call(ARGV[3], KEYS[2], unpack(ARGV, first, first + width - 1))
    if type(reply) == 'string' then
      left = left - #reply
    end
    answer[#answer + 1] = {0, reply}
  else
    answer[#answer + 1] = {found}
  end
  if left < 0 then
    break
  end
end
return answer
