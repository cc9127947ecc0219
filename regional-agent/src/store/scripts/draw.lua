-- Draws the number of the next heartbeat, and tells the time and what was used beyond limits. A region that is cut off keeps
-- its record by it. ARGV[2]: the session.
if tonumber(ARGV[2]) ~= session then
  return superseded()
end
redis.call('PEXPIRE', lease, RECORD_LIFE_MS)
local seq, excess = redis.call('HINCRBY', lease, 'seq', 1), redis.call('HGET', lease, 'excess') or ''
return {'done', string.format('%.0f', seq), string.format('%.0f', now), excess}
