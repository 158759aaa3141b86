-- Common head of the scripts of a sale that ask in which history of the data their server is: its
-- replication id, which a server draws anew when it starts and when it becomes a primary.
--
-- history() returns that id, or nil and an error: on a replica the history is not known, and some
-- servers do not show the id.
local function history()
  local text = redis.call('INFO', 'replication')
  if not string.find(text, 'role:master', 1, true) then
    return nil, redis.error_reply('READONLY this server is a replica')
  end
  local _, at = string.find(text, 'master_replid:', 1, true)
  if not at then
    return nil, redis.error_reply('NOHISTORY this server does not show its replication id')
  end
  return string.sub(text, at + 1, at + 40)
end
