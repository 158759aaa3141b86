-- Reads a session and lets it slide.
--
-- KEYS  1 session
-- ARGV  1 idle lifetime in ms, 2 how long ago the last extension must be, in ms
-- Returns nil, or user, when it ends at the latest, 1 when it was extended (else 0), and the fields.
--
-- Atomic, because a session that ends between the read and the extension would be kept alive without
-- its fields.
local all = redis.call('HGETALL', KEYS[1])
if #all == 0 then return false end
local user, last
local fields = {}
for at = 1, #all, 2 do
  if all[at] == '~user' then user = all[at + 1]
  elseif all[at] == '~until' then last = tonumber(all[at + 1])
  else fields[#fields + 1] = {all[at], all[at + 1]} end
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if not user or not last or now >= last then
  redis.call('DEL', KEYS[1])
  return false
end
local slid = 0
-- What is left tells when it was extended last.
local wanted = math.min(tonumber(ARGV[1]), last - now)
if wanted - redis.call('PTTL', KEYS[1]) >= tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', wanted))
  slid = 1
end
return {user, last, slid, fields}
