-- Draws the number of the next heartbeat, and tells the time. A region that is cut off keeps
-- its record by it. ARGV[2]: the session.
if tonumber(ARGV[2]) ~= session then
  return superseded()
end
redis.call('PEXPIRE', lease, RECORD_LIFE_MS)
return {'done', string.format('%.0f', redis.call('HINCRBY', lease, 'seq', 1)), string.format('%.0f', now)}
