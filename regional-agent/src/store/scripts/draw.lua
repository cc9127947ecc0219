-- Draws the number of the next heartbeat, and tells the time. ARGV[2]: the session.
if tonumber(ARGV[2]) ~= session then
  return superseded()
end
return {'done', string.format('%.0f', redis.call('HINCRBY', lease, 'seq', 1)), string.format('%.0f', now)}
