-- Merges rows of the database into a cart, and executes changes made there while Redis was away.
-- Creates the cart if it does not exist.
--
-- KEYS, ARGV 1 to 2: see shared.lua
-- ARGV  3 user, 4 number of newest changes to search, 5 maximum SKUs, 6 maximum units of one,
--       7 number of names, 8 number of rows, 9 the latest number ever assigned to a pending change,
--       including those that the rows already contain; then name and time (ms) of each name;
--       sku, count, selected, price, added and version of each row; seq, kind, sku, count, selected,
--       price, added, bought and name of each pending change, in order (see pending.rs)
-- Returns {OK}.
--
-- A row counts only if it is newer than what the cart knows of its SKU, removals included. A cart
-- that did not exist also takes changes that still wait for the database, which the rows may lack:
-- so a reload never brings back an item that was removed.
--
-- Pending changes are those that the rows do not contain. The cart's state of an item includes
-- those up to `replayed`, a stream entry those up to its number, a row none of them: so each is
-- executed once, on whichever state counts.
--
-- Atomic, because a concurrent change must not be overwritten by a row that was read before it, and
-- a pending change must be executed together with the number that marks it as done.
if not is_there then
  redis.call('DEL', counts, details, order, gone, meta)
  version = 0
end
local most_skus, most = tonumber(ARGV[5]), tonumber(ARGV[6])
local upto = {}

local function take(sku, count, d, has)
  local known = detail(sku)
  local removed = tonumber(redis.call('ZSCORE', gone, sku) or '0')
  local newest = math.max(known and known.version or 0, removed)
  if d.version <= newest then return end
  if count == '0' then drop(sku, d.version) else put(sku, count, d) end
  version = math.max(version, d.version)
  upto[sku] = has
end

local names = 10
local rows = names + 2 * tonumber(ARGV[7])
local pending = rows + 6 * tonumber(ARGV[8])
for i = rows, pending - 1, 6 do
  take(ARGV[i], ARGV[i + 1], {selected = ARGV[i + 2], price = ARGV[i + 3], added = ARGV[i + 4],
    version = tonumber(ARGV[i + 5])}, 0)
end
local before = replayed
if not is_there then
  for _, entry in ipairs(redis.call('XREVRANGE', changes, '+', '-', 'COUNT', ARGV[4])) do
    local f = {}
    for i = 1, #entry[2], 2 do f[entry[2][i]] = entry[2][i + 1] end
    if f.user == ARGV[3] then
      local has = tonumber(f.replayed or '0')
      take(f.sku, f.count, {selected = f.selected, price = f.price, added = f.added,
        version = tonumber(f.version)}, has)
      replayed = math.max(replayed, has)
      if f.submission and f.submission ~= '' then know(f.submission, millis) end
    end
  end
end

-- Returns the count and the details after a change, or nil if it changes nothing.
local function changed(i, d)
  local kind, count, selected = ARGV[i + 1], tonumber(ARGV[i + 3]), ARGV[i + 4]
  local now = tonumber(redis.call('HGET', counts, ARGV[i + 2]) or '0')
  if ARGV[i + 8] ~= '' and redis.call('ZSCORE', sent, ARGV[i + 8]) then return nil end
  if kind == 'DROP' then return 0, d end
  if kind == 'TAKE' then
    if d and d.version <= tonumber(ARGV[i + 7]) then return 0, d end
    return nil
  end
  if not d then
    if count < 0 or redis.call('HLEN', counts) >= most_skus then return nil end
    d = {selected = '1', price = ARGV[i + 5], added = ARGV[i + 6]}
  end
  if kind == 'ADD' then return math.min(now + count, most), d end
  if selected ~= '-1' then d.selected = selected end
  return count < 0 and now or count, d
end

-- Appends the current state. It need not be new: the database deletes the pending change with it.
local function note_as_it_is(sku, d, seq, name)
  d.version = d.version or tonumber(redis.call('ZSCORE', gone, sku) or '1')
  note(sku, redis.call('HGET', counts, sku) or '0', d, seq, name)
end

for i = pending, #ARGV, 9 do
  local seq, sku, name = tonumber(ARGV[i]), ARGV[i + 2], ARGV[i + 8]
  local d = detail(sku)
  local none = {selected = '1', price = ARGV[i + 5], added = ARGV[i + 6]}
  if seq > (upto[sku] or before) then
    local count, after = changed(i, d)
    if count then
      version = math.max(micros, version + 1)
      d = after or none
      d.version = version
      if count == 0 then drop(sku, version) else put(sku, whole(count), d) end
    end
    if name ~= '' then know(name, math.floor(seq / 1000)) end
    note_as_it_is(sku, d or none, seq, name)
    upto[sku] = seq
  elseif micros - seq > 60000000 then
    -- Its entry should have been written long ago: append it again.
    note_as_it_is(sku, d or none, seq, '')
  end
end
replayed = math.max(replayed, tonumber(ARGV[9]))
-- After the pending changes, because their names are among these.
for i = names, rows - 1, 2 do know(ARGV[i], tonumber(ARGV[i + 1])) end
close()
return {'OK'}
