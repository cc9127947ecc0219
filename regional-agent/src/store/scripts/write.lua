-- Changes what is held. Each bucket is first settled under what was held until now: an absent one
-- is written down with its old capacity, a smaller capacity clamps at once, a greater one leaves the level.
--
-- KEYS[2..]   the bucket of each budget
-- ARGV[2..7]  session and seq of the response, leased, whole floor, 10^6 less the drift, lenders that promise
-- ARGV[8..]   for each budget: what is held from now on, period ('0': it has no bucket, or no policy is
--             known for it), floor (rate, burst), lendable (rate, burst)
if tonumber(ARGV[2]) ~= session or tonumber(ARGV[3]) ~= taken then
  return superseded()
end
local view = {leased = ARGV[4] == '1', whole = ARGV[5] == '1', keep = tonumber(ARGV[6]), standing = ARGV[7]}

local function settle(key, budget, holding, floor)
  local known = redis.call('HMGET', lease, 'b:' .. budget, 'c:' .. string.match(budget, '^(.*):'))
  local before = terms_of(holding_of(known[1], floor), floor, view)
  local after = terms_of(holding, floor, view)
  local bucket = settled(stored_bucket(key), before, change_of(known[2]))
  put_under(bucket, after)
  keep_bucket(key, bucket, after)
end

for i = 2, #KEYS do
  local a = 8 + (i - 2) * 6
  local holding, period = ARGV[a], tonumber(ARGV[a + 1])
  local budget = string.match(KEYS[i], ':bucket:(.*)$')
  if period > 0 then
    settle(KEYS[i], budget, holding, {
      period = period, rate = tonumber(ARGV[a + 2]), burst = tonumber(ARGV[a + 3]),
      lendable_rate = tonumber(ARGV[a + 4]), lendable_burst = tonumber(ARGV[a + 5]),
    })
  end
  if holding == '0 0 0 0' and not burnt then
    redis.call('HDEL', lease, 'b:' .. budget)
  else
    redis.call('HSET', lease, 'b:' .. budget, holding)
  end
end
return {'done'}
