-- Brings rows of the database into a cart; makes the cart where there is none.
--
-- KEYS, ARGV 1 to 2: see shared.lua
-- ARGV  3 user, 4 how many of the newest changes are looked at, 5 how many submissions follow, then
--       name and time (ms) of each, then sku, count, selected, price, added and version of each row
-- Returns {OK}.
--
-- A row counts only when it is newer than what the cart knows of its SKU, removals included. A cart
-- that was not there also takes changes that still wait for the database, which the rows may lack: so
-- a reload brings nothing back that was removed.
--
-- Atomic, because a change in between must not be overwritten by a row that was read before it.
if not is_there then
  redis.call('DEL', counts, details, order, gone, meta)
  version = 0
end

local function take(sku, count, d)
  local known = detail(sku)
  local removed = tonumber(redis.call('ZSCORE', gone, sku) or '0')
  local newest = math.max(known and known.version or 0, removed)
  if d.version <= newest then return end
  if count == '0' then drop(sku, d.version) else put(sku, count, d) end
  version = math.max(version, d.version)
end

local rows = 6 + 2 * tonumber(ARGV[5])
for i = 6, rows - 1, 2 do know(ARGV[i], tonumber(ARGV[i + 1])) end
for i = rows, #ARGV, 6 do
  take(ARGV[i], ARGV[i + 1], {selected = ARGV[i + 2], price = ARGV[i + 3], added = ARGV[i + 4],
    version = tonumber(ARGV[i + 5])})
end
if not is_there then
  for _, entry in ipairs(redis.call('XREVRANGE', changes, '+', '-', 'COUNT', ARGV[4])) do
    local f = {}
    for i = 1, #entry[2], 2 do f[entry[2][i]] = entry[2][i + 1] end
    if f.user == ARGV[3] then
      take(f.sku, f.count, {selected = f.selected, price = f.price, added = f.added,
        version = tonumber(f.version)})
      if f.submission and f.submission ~= '' then know(f.submission, millis) end
    end
  end
end
close()
return {'OK'}
