-- Common head of every script on a shard of an inventory.
--
-- KEYS  1 shard {epoch, phase, received, held, sold, left}, 2 records by reference, 3 end times of
--       holds, 4 parts of holds whose home is another shard, by the time at which their home must
--       be asked, 5 times at which finished records are forgotten
-- ARGV  1 epoch that the caller knows, 2 ms that a finished record is kept
-- Returns {LOST}, {EPOCH, epoch} or {REBUILDING} if nothing may be moved.
--
-- A record is "STATE units ms attempt rest". States: G gathering, H held, S sold, R released, X
-- expired, N gathered in vain, B taken back, I received. The field begins with h: at the home of a
-- hold (rest: its parts, "shard:units,…"; "-" or "+" if it has none), p: for a part (rest: the
-- home), r: for a receipt. Two more fields exist: w:REFERENCE at a home lists the shards that may
-- have a part and have not acknowledged the outcome yet ("shard:attempt,…"; absent if rest is "-");
-- u:REFERENCE holds the units of a part whose home does not know it. A home forgets nothing while a
-- shard has not answered.
--
-- Atomic, because received = held + sold + left must hold at any time.
local shard, records, due, parts, done = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
-- #include time.lua
local has = redis.call('HMGET', shard, 'epoch', 'phase', 'left')
if not has[1] then return {'LOST'} end
if has[1] ~= ARGV[1] then return {'EPOCH', has[1]} end
if has[2] ~= 'open' then return {'REBUILDING'} end
local left = tonumber(has[3])

local function whole(number) return string.format('%.0f', number) end

local function read(field)
  local value = redis.call('HGET', records, field)
  if not value then return nil end
  local s, units, ends, attempt, rest = string.match(value, '^(%u) (%d+) (%d+) (%d+) (%S+)$')
  return {s = s, units = tonumber(units), ends = tonumber(ends), attempt = tonumber(attempt),
    rest = rest}
end

local function write(field, r)
  redis.call('HSET', records, field, table.concat(
    {r.s, whole(r.units), whole(r.ends), whole(r.attempt), r.rest}, ' '))
end

local function move(from, to, units)
  if units == 0 then return end
  redis.call('HINCRBY', shard, from, whole(-units))
  redis.call('HINCRBY', shard, to, whole(units))
  if from == 'left' then left = left - units end
  if to == 'left' then left = left + units end
end

-- Returns the shards that a home waits for, or false.
local function waits(field, r)
  return r.rest ~= '-' and redis.call('HGET', records, 'w:' .. string.sub(field, 3))
end

-- Records the shards that a home waits for: {{shard, attempt}, …}.
local function await(field, r, shards)
  local name = 'w:' .. string.sub(field, 3)
  if #shards == 0 then
    redis.call('HDEL', records, name)
    if r.rest == '+' then r.rest = '-' end
    return
  end
  local text = {}
  for i, one in ipairs(shards) do text[i] = one[1] .. ':' .. one[2] end
  redis.call('HSET', records, name, table.concat(text, ','))
  if r.rest == '-' then r.rest = '+' end
end

-- Returns the shards that a home waits for, as a list.
local function awaited(field, r)
  local shards = {}
  for shard, attempt in string.gmatch(waits(field, r) or '', '(%d+):(%d+)') do
    shards[#shards + 1] = {shard, attempt}
  end
  return shards
end

-- Adds shards to those that a home waits for.
local function await_also(field, r, more)
  local shards, known = awaited(field, r), {}
  for _, one in ipairs(shards) do known[one[1]] = true end
  for _, one in ipairs(more) do
    if not known[one] then shards[#shards + 1] = {one, whole(r.attempt)} end
  end
  await(field, r, shards)
end

-- Returns the shards of "shard:units,…".
local function shards_of(rest)
  local shards = {}
  for one in string.gmatch(rest, '(%d+):%d+') do shards[#shards + 1] = one end
  return shards
end

-- Returns true if a hold has a part at this shard.
local function is_part(r, shard)
  return string.find(',' .. r.rest, ',' .. shard .. ':', 1, true) ~= nil
end

-- Returns the verdict that a shard must have been told before its home stops waiting for it: S, R,
-- or nil while undecided.
local function verdict_for(r, shard)
  if r.s == 'G' then return nil end
  if not is_part(r, shard) then return 'R' end
  if r.s == 'H' then return nil end
  return r.s == 'S' and 'S' or 'R'
end

-- Removes the shards that have answered, listed from this argument on: number and verdict ("2S"),
-- followed by "?" if the present attempt did not ask the shard; an earlier attempt may have asked
-- it.
local function answered(field, r, from)
  local told = {}
  for i = from, #ARGV do
    local shard, verdict, unasked = string.match(ARGV[i], '^(%d+)([SR])(%??)$')
    if shard and verdict == verdict_for(r, shard) then told[shard] = unasked end
  end
  local rest = {}
  for _, one in ipairs(awaited(field, r)) do
    local unasked = told[one[1]]
    if not (unasked == '' or (unasked == '?' and tonumber(one[2]) == r.attempt)) then
      rest[#rest + 1] = one
    end
  end
  await(field, r, rest)
  return rest
end

-- A part is settled: whatever its home knew, it is no longer astray.
local function found(field)
  local name = 'u:' .. string.sub(field, 3)
  local units = redis.call('HGET', records, name)
  if not units then return end
  redis.call('HDEL', records, name)
  redis.call('HINCRBY', shard, 'astray', '-' .. units)
end

-- Ends a record in this state. It is remembered for a while, counted from when all parts have
-- answered.
local function finish(field, r, s)
  r.s, r.ends = s, now + ARGV[2]
  write(field, r)
  redis.call('ZREM', due, field)
  local kind = string.sub(field, 1, 2)
  if kind == 'h:' and waits(field, r) then
    redis.call('ZREM', done, field)
    redis.call('ZADD', parts, whole(now + 2000), field)
    return
  end
  if kind == 'p:' then found(field) end
  redis.call('ZREM', parts, field)
  redis.call('ZADD', done, whole(r.ends), field)
end

-- Writes a hold or a gathering that expires at r.ends.
local function lasts(field, r)
  write(field, r)
  redis.call('ZREM', done, field)
  redis.call('ZADD', due, whole(r.ends), field)
end

local function expire(field, r)
  move('held', 'left', r.units)
  finish(field, r, r.s == 'G' and 'N' or 'X')
end

-- Expires at most `most` holds that have ended. Returns the number handled; if it is less than
-- `most`, none is left.
local function ends(most)
  local fields = redis.call('ZRANGEBYSCORE', due, '-inf', whole(now), 'LIMIT', 0, most)
  for _, field in ipairs(fields) do
    local r = read(field)
    if r and (r.s == 'H' or r.s == 'G') then
      expire(field, r)
    else
      -- Earlier versions kept finished records here too, due when they are forgotten.
      redis.call('ZREM', due, field)
      if r then redis.call('ZADD', done, whole(r.ends or 0), field) end
    end
  end
  return #fields
end

-- Handles what is due, a few records at a time. Units return before records are forgotten, or a
-- unit would wait behind them. Returns whether more holds may have ended, and whether more of
-- anything may be due.
local function sweep(most)
  local looked = ends(most)
  if looked == most then return true, true end
  local fields = redis.call('ZRANGEBYSCORE', done, '-inf', whole(now), 'LIMIT', 0, most - looked)
  for _, field in ipairs(fields) do
    local r = read(field)
    if r and (r.s == 'H' or r.s == 'G') then
      redis.call('ZREM', done, field)
    elseif r and (r.ends or 0) > now then
      redis.call('ZADD', done, whole(r.ends), field)
    else
      redis.call('HDEL', records, field)
      redis.call('ZREM', done, field)
    end
  end
  return false, looked + #fields == most
end

local function answer(word, r)
  return {word, r.s, whole(r.units), whole(r.ends), whole(r.attempt), r.rest, whole(left)}
end
