-- Extends leases whose loads are still running.
--
-- KEYS     entries, all in one slot or on one server
-- ARGV[1]  how long a lease lives from now, in milliseconds
-- ARGV[2…] the token of each entry's lease, 8 bytes, in the order of the keys
--
-- Returns  a list with 1 for each lease that lives on, 0 for each that is no longer the caller's.
--
-- A lease that was killed by an invalidation, has ended or was handed to another caller is left alone:
-- nothing is revived. Copes with being sent twice or arriving late.
--
-- Atomic, because the check of the token and the extension must see the same entry.

-- #include time.lua
local lease_until = struct.pack('>I8', now + ARGV[1])
local alive = {}
for index = 1, #KEYS do
  alive[index] = 0
  local head = redis.call('GETRANGE', KEYS[index], 0, 71)
  local ours = #head == 72 and string.sub(head, 1, 2) == '\197\1'
  if ours and string.sub(head, 17, 24) == ARGV[index + 1] and struct.unpack('>I8', head, 25) > now then
    redis.call('SETRANGE', KEYS[index], 24, lease_until)
    if redis.call('PTTL', KEYS[index]) < tonumber(ARGV[1]) then
      redis.call('PEXPIRE', KEYS[index], ARGV[1])
    end
    alive[index] = 1
  end
end
return alive
