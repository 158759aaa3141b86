-- Returns the term (the epoch) of a server and whether a sale was verified in it; marks the sale as
-- verified.
--
-- Begins with sale_history.lua.
-- KEYS  1 sale
-- ARGV  1 LOOK | VOUCH, 2 VOUCH: the term in which the comparison began
-- Returns {term, 1 if the sale is open and was verified in it, else 0}.
--
-- Atomic, because a term that is over by now must not replace the present one.
local term, unknown = history()
if not term then return unknown end
local sale = redis.call('HMGET', KEYS[1], 'state', 'vouched')
if sale[1] ~= 'open' then return {term, 0} end
if ARGV[1] == 'VOUCH' and ARGV[2] == term then
  redis.call('HSET', KEYS[1], 'vouched', term)
  sale[2] = term
end
return {term, sale[2] == term and 1 or 0}
