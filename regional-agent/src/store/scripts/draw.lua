-- Draws the number of the next heartbeat. ARGV[2]: the session.
if tonumber(ARGV[2]) ~= session then
  return superseded()
end
return {'done', string.format('%.0f', redis.call('HINCRBY', lease, 'seq', 1))}
