-- Puts the true cost in the place of what a hold was charged.
--
-- KEYS[2]     the hold
-- KEYS[3..]   every key that it names, in its order
-- ARGV[2..3]  the hold as it was read, the cost
if redis.call('GET', KEYS[2]) ~= ARGV[2] then
  return {'changed'}
end
local settlers = {bucket = settle_bucket, log = settle_log, sliding = settle_sliding, window = settle_window}
local cost, lost_then, i = tonumber(ARGV[3]), string.match(ARGV[2], '^%S*'), 2
local least, most = nil, 0
for key, estimate, kind, ticket in string.gmatch(ARGV[2], '\n(%S+) (%d+) (%S+) ([^\n]*)') do
  i = i + 1
  if key ~= KEYS[i] then
    error('undeclared key ' .. key)
  end
  if kind == 'slot' then
    release_slot(key, ticket, tonumber(estimate))
  else
    local returned, owed = 0, math.max(0, cost - tonumber(estimate))
    -- what was charged before a loss of state is not corrected
    if lost_then == (record[11] or '-') then
      returned, owed = settlers[kind](key, tonumber(estimate), cost, ticket)
    end
    note_excess(key, owed, 0)
    least, most = math.min(least or returned, returned), math.max(most, owed)
  end
end
local words = {'settled', int(cost), int(least or 0), int(most)}
redis.call('SET', KEYS[2], table.concat(words, ' '), 'KEEPTTL')
return words
