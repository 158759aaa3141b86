-- Carries one command out for each of several members, where they are in this bucket.
--
-- KEYS[1]  gate: what the bucket may be used for
-- KEYS[2]  bucket
-- KEYS[3]  members that are on their way to another bucket
-- ARGV[1]  command that says whether a member is there: HEXISTS, SISMEMBER or ZSCORE
-- ARGV[2]  'read' or 'write'
-- ARGV[3]  command
-- ARGV[4]  how many arguments it takes for a member
-- ARGV[5]  which of them is the member, from 1
-- ARGV[6]  how many bytes the answers may have
-- ARGV[7…] the arguments, member by member
--
-- Returns  {'absent'}   there is no gate: nobody used this bucket yet, or it is of another time
--          {'gone'}     everything has moved
--          {'here', …}  for each member {0, reply}; {1} when it is to be looked for in the bucket that
--                       this one moves to; {2} when it is on its way and cannot be written. Members
--                       for which the bytes did not suffice are left out.
--
-- Atomic, because a bucket that begins to move must not be written to as if it did not: a member that
-- is not in a moving bucket never gets into it again.

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
