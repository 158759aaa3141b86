-- Changes a cart and appends every changed state for the database.
--
-- KEYS, ARGV 1 to 2: see shared.lua
-- ARGV  3 user, 4 maximum changes that may wait for the database, 5 the operation:
--       ADD   6 sku, 7 count, 8 price, 9 maximum SKUs, 10 maximum units of one, 11 name
--       SET   6 sku, 7 count or '', 8 selected or ''; a count of 0 removes
--       DROP  6 sku
--       TAKE  then sku and version of each: removed if it still has that version
-- Returns {OK} and the appended states: sku, count, selected, price, added, version and replayed of
-- each item; {OK} alone for a name that was already executed, {ABSENT} if the cart must be loaded
-- first, {BUSY} if too many changes wait, {NONE} if there is no such item, {FULL}, {MANY}.
--
-- Atomic, because the limits apply to the state at the moment of the change, two changes of one
-- item must both count, a name takes effect once however often it arrives, and no change may be
-- missing from the stream.
if not is_there then return {'ABSENT'} end
local name = ARGV[5] == 'ADD' and ARGV[11] or ''
if name ~= '' and redis.call('ZSCORE', sent, name) then return {'OK'} end
if redis.call('XLEN', changes) >= tonumber(ARGV[4]) then return {'BUSY'} end
version = math.max(micros, version + 1)
local reply = {'OK'}

local function change(sku, count, d)
  d.version = version
  if count == '0' then drop(sku, version) else put(sku, count, d) end
  note(sku, count, d, replayed, name)
  for _, word in ipairs({sku, count, d.selected, d.price, d.added, whole(version), whole(replayed)}) do
    reply[#reply + 1] = word
  end
end

local what, sku = ARGV[5], ARGV[6]
if what == 'TAKE' then
  for i = 6, #ARGV, 2 do
    local d = detail(ARGV[i])
    if d and whole(d.version) == ARGV[i + 1] then change(ARGV[i], '0', d) end
  end
  close()
  return reply
end

local count, d = tonumber(redis.call('HGET', counts, sku) or '0'), detail(sku)
if what == 'ADD' then
  if not d then
    if redis.call('HLEN', counts) >= tonumber(ARGV[9]) then return {'FULL'} end
    d = {selected = '1', price = ARGV[8], added = whole(millis)}
  end
  count = count + tonumber(ARGV[7])
  if count > tonumber(ARGV[10]) then return {'MANY'} end
elseif not d then
  if what == 'DROP' then
    -- Also if it is not here: an older row must not bring it back.
    drop(sku, version)
    close()
  end
  return {'NONE'}
elseif what == 'SET' then
  if ARGV[7] ~= '' then count = tonumber(ARGV[7]) end
  if ARGV[8] ~= '' then d.selected = ARGV[8] end
else
  count = 0
end
change(sku, whole(count), d)
if name ~= '' then know(name, millis) end
close()
return reply
