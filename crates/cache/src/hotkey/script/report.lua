-- Adds one process' reads of some keys to those of the whole fleet, and decides which are hot.
--
-- KEYS[1]  hot keys of this shard: a hash from key to line (see wire.rs)
-- KEYS[n]  windows of the keys that are reported, all in the shard's slot
-- ARGV[1]  channel
-- ARGV[2]  who reports, 4 bytes
-- ARGV[3]  how many keys of a shard may be hot
-- ARGV[4…] for each window eight: key, reads, writes, window in milliseconds, threshold, how long it
--          takes to cool in milliseconds, threshold for copies (0: never), version of the entry
--          (0: not known)
--
-- Returns  {now in milliseconds, then for each key its line, or '' when it is not hot}
--
-- Atomic, because the process whose reads cross the threshold must see those of all others, and
-- because a key must become hot once.
--
-- A window: width of a part in milliseconds:4 bytes, number of the newest part:8, reads in twenty
-- parts from the newest on:4 each, then who reported and in which part last:4 and 8 each.

local PARTS, SOURCES = 20, 32
-- #include time.lua
local answer = {now}

local function slide(name, reads, window)
  local width = math.max(1, math.floor(window / PARTS))
  local newest = math.floor(now / width)
  local parts, sources, count = {}, {}, 1
  for part = 1, PARTS do
    parts[part] = 0
  end
  local old = redis.call('GET', name)
  if old and #old >= 12 + 4 * PARTS and struct.unpack('>I4', old) == width then
    local passed = math.max(0, newest - struct.unpack('>I8', old, 5))
    for part = 1 + passed, PARTS do
      parts[part] = struct.unpack('>I4', old, 13 + 4 * (part - 1 - passed))
    end
    for at = 13 + 4 * PARTS, #old - 11, 12 do
      local seen = struct.unpack('>I8', old, at + 4)
      if string.sub(old, at, at + 3) ~= ARGV[2] and seen > newest - PARTS and count < SOURCES then
        sources[count] = string.sub(old, at, at + 11)
        count = count + 1
      end
    end
  end
  parts[1] = math.min(4294967295, parts[1] + reads)
  local sum, packed = 0, {struct.pack('>I4I8', width, newest)}
  for part = 1, PARTS do
    sum = sum + parts[part]
    packed[part + 1] = struct.pack('>I4', parts[part])
  end
  sources[count] = ARGV[2] .. struct.pack('>I8', newest)
  redis.call('SET', name, table.concat(packed) .. table.concat(sources), 'PX', 2 * window)
  return sum, count
end

for index = 2, #KEYS do
  local at = 4 + (index - 2) * 8
  local key = ARGV[at]
  local reads, writes, window = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local threshold, cool = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  local copies_at, version = tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7])
  local sum, sources = slide(KEYS[index], reads, window)
  local since, ends, reason, level = now, 0, 'counted', 0
  local line = redis.call('HGET', KEYS[1], key)
  local was_hot = false
  if line then
    local old_since, old_ends, _, old_writes, _, old_version, old_reason, old_level =
      string.match(line, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%a+) (%d+)')
    if old_since and tonumber(old_ends) > now then
      was_hot = true
      since, ends, reason, level = tonumber(old_since), tonumber(old_ends), old_reason, tonumber(old_level)
      writes = writes + tonumber(old_writes)
      version = math.max(version, tonumber(old_version))
    end
  end
  local hot = was_hot
  if sum >= threshold or (was_hot and sum * 2 >= threshold) then
    hot = was_hot or redis.call('HLEN', KEYS[1]) < tonumber(ARGV[3])
    ends = math.max(ends, now + cool)
  end
  if hot then
    local old_level = level
    level = 1
    if copies_at > 0 and (sum >= copies_at or (old_level == 2 and sum * 2 >= copies_at)) then
      level = 2
    end
    line = string.format('%.0f %.0f %.0f %.0f %.0f %.0f %s %d %.0f',
      since, ends, sum, writes, sources, version, reason, level, window)
    redis.call('HSET', KEYS[1], key, line)
    if redis.call('PTTL', KEYS[1]) < ends - now + 60000 then
      redis.call('PEXPIRE', KEYS[1], ends - now + 60000)
    end
    if not was_hot or level ~= old_level then
      redis.call('PUBLISH', ARGV[1], 'h ' .. string.format('%.0f', now) .. ' ' .. line .. ' ' .. key)
    end
    answer[index] = line
  else
    answer[index] = ''
  end
end
return answer
