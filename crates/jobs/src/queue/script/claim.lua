-- Hands out due items, each with a lease.
--
-- KEYS[1]  waiting: sorted set of ids, scored by the millisecond at which they are due
-- KEYS[2]  leased: sorted set of ids, scored by the end of their lease
-- KEYS[3]  payloads, by id
-- KEYS[4]  tokens, by id: for a live item the token of its last lease, for a dead item its number
--          of attempts
-- KEYS[5]  dead: sorted set of ids, scored by the time they died
-- KEYS[6]  notes, by id: for a live item the token from which attempts are counted (minus 0.5 if an
--          attempt may have begun and never ended), for a dead item the reason
-- KEYS[7]  the last token that was given out
-- ARGV[1]  most items to hand out
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  attempts after which an item is dead
-- ARGV[4]  most expired leases to look at
-- ARGV[5]  payload bytes after which no further item is handed out
-- ARGV[6]  1 if an item that must run alone may be handed out
--
-- Returns  {milliseconds until the next item is due or a lease expires (-1 if there is none), how
--          many items died, {{id, token, attempts that count, 1 if it must run alone, payload,
--          milliseconds since it was due}, …}}, earliest first
--
-- Atomic, so that each item is handed to one consumer, and so that only this consumer has its
-- token. The time is the server's: consumers with different clocks agree on which items are due.
--
-- Tokens are unique in the whole shard, even for an id that was removed and added again. Each token
-- is larger than the last one, than any earlier token of the item, and than the time in
-- microseconds. The time makes it larger, too, than the tokens of a failed primary that never
-- reached its replica. The token minus the item's note is the number of attempts, so the note moves
-- along with the token.
--
-- Handing out is not an attempt, because the reply may be lost. Nor is an expired lease by itself:
-- any of the items that were handed out together may have ended their consumer. Such an item is
-- handed out alone the next time, and its consumer records the attempt before it begins
-- (begin.lua).

-- #include time.lua
local limit = tonumber(ARGV[3])
local number = function(value) return string.format('%.0f', value) end
local token_of = function(id) return tonumber(redis.call('HGET', KEYS[4], id) or '0') end
local before = function(id) return tonumber(redis.call('HGET', KEYS[6], id) or '0') or 0 end

-- Items whose lease expired without an extension are due again at once. Reads every key before the
-- first write: if another program uses one of them with another type, the script fails here and no
-- item is lost.
for _, key in ipairs({KEYS[3], KEYS[4], KEYS[6]}) do redis.call('HLEN', key) end
redis.call('ZCARD', KEYS[1])
redis.call('ZCARD', KEYS[5])
local last = tonumber(redis.call('GET', KEYS[7]) or '0') or 0

local died = 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', number(now), 'LIMIT', 0, ARGV[4])) do
  redis.call('ZREM', KEYS[2], id)
  local token = token_of(id)
  local attempts = math.floor(token - before(id))
  if attempts >= limit then
    redis.call('ZADD', KEYS[5], number(now), id)
    redis.call('HSET', KEYS[4], id, number(attempts))
    redis.call('HSET', KEYS[6], id, 'its lease ended while it was begun alone, after ' ..
      number(attempts) .. ' attempts that count')
    died = died + 1
  else
    redis.call('HSET', KEYS[6], id, string.format('%.1f', token - attempts - 0.5))
    redis.call('ZADD', KEYS[1], number(now), id)
  end
end

local moment = micros
local taken = {}
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', number(now), 'WITHSCORES', 'LIMIT', 0, ARGV[1])
local room = tonumber(ARGV[5])
for at = 1, #due, 2 do
  local id = due[at]
  local former = token_of(id)
  local tally = former - before(id)
  local alone = tally % 1 > 0
  if alone and (#taken > 0 or ARGV[6] ~= '1') then break end
  local payload = redis.call('HGET', KEYS[3], id)
  room = room - #(payload or '')
  -- The first item is always handed out; the rest stays due for the next claim.
  if room < 0 and #taken > 0 then break end
  redis.call('ZREM', KEYS[1], id)
  redis.call('ZADD', KEYS[2], number(now + tonumber(ARGV[2])), id)
  last = math.max(last + 1, former + 1, moment)
  redis.call('HSET', KEYS[4], id, number(last))
  redis.call('HSET', KEYS[6], id, string.format(alone and '%.1f' or '%.0f', last - tally))
  taken[#taken + 1] = {id, last, math.floor(tally), alone and 1 or 0, payload, now - tonumber(due[at + 1])}
  if alone then break end
end
if #taken > 0 then
  redis.call('SET', KEYS[7], number(last))
end

local wait = -1
for key = 1, 2 do
  local first = redis.call('ZRANGE', KEYS[key], 0, 0, 'WITHSCORES')
  if first[2] then
    local left = math.max(0, tonumber(first[2]) - now)
    if wait < 0 or left < wait then
      wait = left
    end
  end
end
return {wait, died, taken}
