-- Keeps the policy sets that a response goes by, for the region's other agents, before the response is in force.
--
-- KEYS[2]     the sets
-- ARGV[2..5]  session and seq of the response, which sets these are, the sets
if tonumber(ARGV[2]) ~= session or tonumber(ARGV[3]) ~= taken then
  return superseded()
end
redis.call('SET', KEYS[2], ARGV[5], 'PX', RECORD_LIFE_MS)
redis.call('HSET', lease, 'shelf', ARGV[4])
return {'done'}
