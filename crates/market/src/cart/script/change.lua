-- Changes a cart, and notes every change for the database.
--
-- KEYS, ARGV 1 to 2: see shared.lua
-- ARGV  3 user, 4 most changes that may wait for the database, 5 what to do:
--       ADD   6 sku, 7 count, 8 price, 9 most SKUs, 10 most of one, 11 name of the submission or ''
--       SET   6 sku, 7 count or '', 8 selected or ''; a count of 0 removes
--       DROP  6 sku
--       TAKE  then sku and version of each: removed if it is still that version
-- Returns {OK}, also for a submission that was carried out before, {ABSENT} when the cart has to be
-- loaded first, {BUSY} when too many changes wait, {NONE} when there is no such item, {FULL}, {MANY}.
--
-- Atomic, because the limits hold for what is there at the moment of the change, two changes of one
-- item must both count, a submission counts once however often it comes, and no change may be without
-- its note.
if not is_there then return {'ABSENT'} end
local submission = ARGV[5] == 'ADD' and ARGV[11] or ''
if submission ~= '' and redis.call('ZSCORE', sent, submission) then return {'OK'} end
if redis.call('XLEN', changes) >= tonumber(ARGV[4]) then return {'BUSY'} end
version = math.max(micros, version + 1)

local function note(sku, count, d)
  redis.call('XADD', changes, '*', 'user', ARGV[3], 'sku', sku, 'count', count,
    'selected', d.selected, 'price', d.price, 'added', d.added, 'version', whole(version),
    'submission', submission)
end

local function remove(sku, d)
  drop(sku, version)
  note(sku, '0', d)
end

local what, sku = ARGV[5], ARGV[6]
if what == 'TAKE' then
  for i = 6, #ARGV, 2 do
    local d = detail(ARGV[i])
    if d and whole(d.version) == ARGV[i + 1] then remove(ARGV[i], d) end
  end
  close()
  return {'OK'}
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
  return {'NONE'}
elseif what == 'SET' then
  if ARGV[7] ~= '' then count = tonumber(ARGV[7]) end
  if ARGV[8] ~= '' then d.selected = ARGV[8] end
else
  count = 0
end
if count == 0 then
  remove(sku, d)
else
  d.version = version
  put(sku, whole(count), d)
  note(sku, whole(count), d)
end
if submission ~= '' then know(submission, millis) end
close()
return {'OK'}
