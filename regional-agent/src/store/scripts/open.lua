-- Opens a session. State that this store cannot vouch for counts as lost (R7).
--
-- KEYS[1..2]  the lease record, the lock of who renews
-- ARGV[2..6]  the session, whether to count all as lost, the policies then, the nonce, token and holder of the lock as
--             the caller has it ('-': it has none)
local lease = KEYS[1]
local holding = string.match(redis.call('GET', KEYS[2]) or '', '^%d+ %x+')
if holding and holding ~= ARGV[6] then
  return {'not-elected'}
end
local found = redis.call('HMGET', lease, 'session', 'taken', 'epoch', 'store', 'burnt', 'seq', 'evicted', 'excess')
if found[1] and tonumber(found[1]) >= tonumber(ARGV[2]) then
  return {'superseded', found[1], found[2]}
end
if not found[1] or ARGV[3] == '1' or has_lost(found[4], found[1], found[6], found[7]) then
  -- a lost record's epoch is unknown: the time is one that it did not reach
  local epoch = math.max(tonumber(found[3] or '0') + 1, now)
  redis.call('DEL', lease)
  redis.call('HSET', lease, 'epoch', string.format('%.0f', epoch), 'emptied_at', string.format('%.0f', now),
    'lost_at', string.format('%.0f', now), 'burnt', '1', 'policies', ARGV[4], 'store', store,
    'excess', found[8] or '')
  if evictions() then
    redis.call('HSET', lease, 'evicted', evictions())
  end
elseif found[5] == '1' then
  -- nothing was applied since the loss: these are what an agent's disk remembered, this one's no less
  redis.call('HSET', lease, 'policies', ARGV[4])
end
redis.call('HDEL', lease, 'applied', 'renewal')
redis.call('HSET', lease, 'session', ARGV[2], 'nonce', ARGV[5], 'seq', '0', 'taken', '0')
redis.call('PEXPIRE', lease, RECORD_LIFE_MS)
return {'done'}
