-- Ends the application of a response: it is in force, and may be echoed.
--
-- ARGV[2..8]  session and seq, the rest of the stamp, policies, whether all offers were named,
--             whether nothing was ever admitted, whether the lease had lapsed
-- ARGV[9]     by what the lease is renewed, for agents that did not receive the response (R8)
-- ARGV[10]    the store's clock counts as showing at least this
-- ARGV[11]    all policies that are in force from now on, each with its generation ('-': the same as before)
-- ARGV[12..]  for each policy whose floors changed: policy and generation, former floor (rate, burst),
--             whether a refill is slower from now on, whether its budgets begin anew under a name that had others before
if tonumber(ARGV[2]) ~= session or tonumber(ARGV[3]) ~= taken then
  return superseded()
end
local full, genesis, lapsed = ARGV[6] == '1', ARGV[7] == '1', ARGV[8] == '1'

local function note_change(policy, rate, burst, slows, anew)
  local field = 'c:' .. policy
  local before = change_of(redis.call('HGET', lease, field))
  local least_rate, least_burst, slowed_first, slowed_last = tonumber(rate), tonumber(burst), nil, nil
  local anew_at = before and before.anew_at
  if anew then
    anew_at = math.max(now, clock)
  end
  if before and since(before.at) <= CHANGE_MEMORY then
    slowed_first, slowed_last = before.slowed_first, before.slowed_last
    least_rate, least_burst = math.min(before.rate, least_rate), math.min(before.burst, least_burst)
  end
  if slows then
    slowed_first, slowed_last = slowed_first or now, now
  end
  local text = table.concat({
    int(now), int(least_rate), int(least_burst),
    slowed_first and int(slowed_first) .. ',' .. int(slowed_last) or '-', anew_at and int(anew_at) or '-',
  }, ' ')
  redis.call('HSET', lease, field, text)
end

-- What is remembered of policies that are not among these means nothing once it is old.
local function forget_changes(policies)
  local named = {}
  for policy in string.gmatch(policies, '%S+') do
    named['c:' .. policy] = true
  end
  local fields = redis.call('HGETALL', lease)
  for i = 1, #fields, 2 do
    local change = string.sub(fields[i], 1, 2) == 'c:' and not named[fields[i]] and change_of(fields[i + 1])
    if change and since(change.at) > CHANGE_MEMORY and (not change.anew_at or since(change.anew_at) > ANEW_MEMORY) then
      redis.call('HDEL', lease, fields[i])
    end
  end
end

-- From now on a budget without a holding holds nothing, so that need not be recorded.
local function unburn()
  redis.call('HSET', lease, 'burnt', '0')
  local fields = redis.call('HGETALL', lease)
  for i = 1, #fields, 2 do
    if fields[i + 1] == '0 0 0 0' and string.sub(fields[i], 1, 2) == 'b:' then
      redis.call('HDEL', lease, fields[i])
    end
  end
end

redis.call('HSET', lease, 'applied', ARGV[3] .. ' ' .. ARGV[4], 'policies', ARGV[5], 'renewal', ARGV[9])
if lapsed then
  redis.call('HSET', lease, 'renewed_at', int(now))
end
note_clock(tonumber(ARGV[10]))
if lapsed or #ARGV > 11 then
  redis.call('HINCRBY', lease, 'epoch', 1)
end
for i = 12, #ARGV, 5 do
  note_change(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3] == '1', ARGV[i + 4] == '1')
end
if ARGV[11] ~= '-' then
  forget_changes(ARGV[11])
end
if full and burnt then
  -- what was lent until now nobody knew, so what refilled until now is not counted
  redis.call('HSET', lease, 'emptied_at', int(now))
  unburn()
end
if genesis then
  redis.call('HDEL', lease, 'emptied_at', 'lost_at')
  unburn()
end
redis.call('PEXPIRE', lease, RECORD_LIFE_MS)
return {'done'}
