-- One operation on a list in chunks.
--
-- KEYS[1]  directory: `head` and `tail`, the numbers of the first and the last chunk, and `length`
-- KEYS[2]  first chunk, as cached by the caller
-- KEYS[3]  last chunk, as cached by the caller
-- KEYS[4]  the chunk before the first
-- KEYS[5]  the chunk after the last
-- KEYS[6…] for 'range': the chunks of the range
-- ARGV[1]  number of the first chunk, as cached by the caller
-- ARGV[2]  number of the last chunk, as cached by the caller
-- ARGV[3]  most elements of a chunk
-- ARGV[4]  'look', 'push_front', 'push_back', 'pop_front', 'pop_back' or 'range'
-- ARGV[5]  element; for 'range' the number of elements of the first chunk, as cached by the caller
-- ARGV[6]  for 'range': index of the first element wanted in the first chunk of the range, from 0
-- ARGV[7]  for 'range': number of elements
-- ARGV[8]  for 'range': most bytes
--
-- Returns  {'moved', head, tail, length, elements of the first chunk} if the caller's cache is
--          outdated, and for 'look'; {'done', length} for a push; {'done', length, element} for a
--          pop, without an element if the list is empty; {'done', length, elements…} for a range.
--
-- All chunks but the first and the last are full, so an index determines its chunk.
--
-- Atomic, because chunks and directory must agree.

local known = redis.call('HMGET', KEYS[1], 'head', 'tail', 'length')
local head, tail, length = known[1] or '0', known[2] or '0', tonumber(known[3] or '0')
local what, capacity = ARGV[4], tonumber(ARGV[3])
local function where()
  return {'moved', head, tail, length, redis.call('LLEN', KEYS[2])}
end
if head ~= ARGV[1] or tail ~= ARGV[2] then
  -- The caller's keys are wrong, so the first chunk's length is returned with the next 'look'.
  return {'moved', head, tail, length, 0}
elseif what == 'look' then
  return where()
end

local function keep(field, number)
  redis.call('HSET', KEYS[1], 'head', head, 'tail', tail)
  redis.call('HSET', KEYS[1], field, string.format('%.0f', number))
end

if what == 'push_back' or what == 'push_front' then
  local back = what == 'push_back'
  local chunk = back and KEYS[3] or KEYS[2]
  if redis.call('LLEN', chunk) >= capacity then
    chunk = back and KEYS[5] or KEYS[4]
    if back then keep('tail', tail + 1) else keep('head', head - 1) end
  end
  redis.call(back and 'RPUSH' or 'LPUSH', chunk, ARGV[5])
  return {'done', redis.call('HINCRBY', KEYS[1], 'length', 1)}
elseif what == 'pop_back' or what == 'pop_front' then
  local back = what == 'pop_back'
  local chunk = back and KEYS[3] or KEYS[2]
  local element = redis.call(back and 'RPOP' or 'LPOP', chunk)
  if not element then
    return {'done', 0}
  end
  if length <= 1 then
    redis.call('DEL', KEYS[1])
    return {'done', 0, element}
  end
  if redis.call('EXISTS', chunk) == 0 then
    if back then keep('tail', tail - 1) else keep('head', head + 1) end
  end
  return {'done', redis.call('HINCRBY', KEYS[1], 'length', -1), element}
end

if redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[5]) then
  return where()
end
local answer = {'done', length}
local first, wanted, left = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
for index = 6, #KEYS do
  for _, element in ipairs(redis.call('LRANGE', KEYS[index], first, first + wanted - 1)) do
    answer[#answer + 1] = element
    wanted, left = wanted - 1, left - #element
    if wanted == 0 or left < 0 then
      return answer
    end
  end
  first = 0
end
return answer
