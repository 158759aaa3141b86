-- Reads a session and lets it slide.
--
-- KEYS  1 session
-- ARGV  1 idle lifetime in ms, 2 how often the database's row follows, in ms
-- Returns nil, or id, nickName, icon, role and 1 when the row is due to follow (else 0).
--
-- Atomic, because a session that ends between the read and the slide would be kept alive without
-- its fields, and because only one request may be told to write the row.
local f = redis.call('HMGET', KEYS[1], 'id', 'nickName', 'icon', 'role', 'until', 'slid')
if not f[1] then return false end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local last = tonumber(f[5])
if now >= last then
  redis.call('DEL', KEYS[1])
  return false
end
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.min(now + ARGV[1], last)))
local due = 0
if now - tonumber(f[6]) >= tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], 'slid', string.format('%.0f', now))
  due = 1
end
return {f[1], f[2], f[3], f[4], due}
