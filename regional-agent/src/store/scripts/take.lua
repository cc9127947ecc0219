-- Begins to apply a response: older ones are refused from now on. ARGV[2..3]: its number.
if tonumber(ARGV[2]) ~= session or tonumber(ARGV[3]) <= taken then
  return superseded()
end
redis.call('HSET', lease, 'taken', ARGV[3])
return {'done'}
