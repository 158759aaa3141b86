-- Common beginning of all cart scripts.
--
-- KEYS  1 counts: sku → count, 2 details: sku → "selected price added version", 3 order: sku → added,
--       4 gone: sku → the version of its removal, 5 meta {n, version, replayed}, 6 the stream of
--       changes, 7 sent: names of additions → ms
-- ARGV  1 deadline by the server's clock, in ms, 2 lifetime of a cart in ms
-- Returns {LATE} after the deadline.
--
-- A cart exists if meta has its number of items and the cart has that many. A version is the time
-- in microseconds, and grows by at least one. Changes made in the database up to the number
-- `replayed` are executed here; every stream entry carries the number, so that the database can
-- delete them.
local counts, details, order = KEYS[1], KEYS[2], KEYS[3]
local gone, meta, changes, sent = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local t = redis.call('TIME')
local micros = t[1] * 1000000 + t[2]
local millis = math.floor(micros / 1000)
-- After the deadline the caller may have given up and gone to the database.
if millis > tonumber(ARGV[1]) then return {'LATE'} end

local function whole(number) return string.format('%.0f', number) end

local has = redis.call('HMGET', meta, 'n', 'version', 'replayed')
local is_there = has[1] and tonumber(has[1]) == redis.call('HLEN', counts)
local version = tonumber(has[2] or '0') or 0
local replayed = is_there and tonumber(has[3] or '0') or 0

local function detail(sku)
  local value = redis.call('HGET', details, sku)
  if not value then return nil end
  local selected, price, added, at = string.match(value, '^(%d) (%d+) (%d+) (%d+)$')
  return {selected = selected, price = price, added = added, version = tonumber(at)}
end

local function put(sku, count, d)
  redis.call('HSET', counts, sku, count)
  redis.call('HSET', details, sku,
    table.concat({d.selected, d.price, d.added, whole(d.version)}, ' '))
  redis.call('ZADD', order, d.added, sku)
  redis.call('ZREM', gone, sku)
end

local function drop(sku, at)
  redis.call('HDEL', counts, sku)
  redis.call('HDEL', details, sku)
  redis.call('ZREM', order, sku)
  redis.call('ZADD', gone, whole(at), sku)
end

-- Appends a state for the database: an item, and the name of the change that made it, or ''.
local function note(sku, count, d, upto, name)
  redis.call('XADD', changes, '*', 'user', ARGV[3], 'sku', sku, 'count', count,
    'selected', d.selected, 'price', d.price, 'added', d.added, 'version', whole(d.version),
    'replayed', whole(upto), 'submission', name)
end

-- Names of clients are kept for a day; generated names, which begin with a space, for an hour.
local function know(name, at)
  if string.sub(name, 1, 1) == ' ' then at = at - 82800000 end
  redis.call('ZADD', sent, 'NX', whole(at), name)
end

-- Removals are kept for a day: by then the database has them. Of removals and names the newest
-- thousand are kept.
local function close()
  redis.call('ZREMRANGEBYSCORE', gone, '-inf', whole(micros - 86400000000))
  redis.call('ZREMRANGEBYRANK', gone, 0, -1001)
  redis.call('ZREMRANGEBYSCORE', sent, '-inf', whole(millis - 86400000))
  redis.call('ZREMRANGEBYRANK', sent, 0, -1001)
  redis.call('HSET', meta, 'n', redis.call('HLEN', counts), 'version', whole(version),
    'replayed', whole(replayed))
  for i = 1, 5 do redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
  redis.call('PEXPIRE', sent, 86400000)
end
