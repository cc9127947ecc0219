-- Puts the true cost in the place of what a hold was charged.
--
-- KEYS[2]     the hold
-- KEYS[3..]   every key that it names, in its order
-- ARGV[2..3]  the hold as it was read, the cost
-- ARGV[4..]   by what the asker tells what is there: when the clock of this host showed what before it was made, how long
--             it holds from then on, session with nonce and seq of the response that dates it, policies, leased, whole
--             floor; then for each key five words (see share_of), of which the first is '-' if past use of it does not
--             count, or the asker does not know it
if redis.call('GET', KEYS[2]) ~= ARGV[2] then
  return {'changed'}
end
local settlers = {bucket = settle_bucket, log = settle_log, sliding = settle_sliding, window = settle_window}
local shown = redis.call('TIME')
local holds = tonumber(shown[1]) * 1000000 + tonumber(shown[2]) - tonumber(ARGV[4]) < tonumber(ARGV[5]) and ARGV[8] == policies
local newest = applied and string.match(applied, '^%d+') or '0'
local current = ARGV[6] == record[1] .. ':' .. record[10] and tonumber(ARGV[7]) >= tonumber(newest)
local view = {leased = current and ARGV[9] == '1', whole = current and ARGV[10] == '1'}

-- What may count at once of the budget of a key, of which the five words begin there.
local function entitled_to(key, a)
  if not holds or ARGV[a] == '-' then
    return 0
  end
  local holding = redis.call('HGET', lease, 'b:' .. string.match(key, ':bucket:(.*)$'))
  return share_of(holding, nil, a, view).entitlement
end

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
      returned, owed = settlers[kind](key, tonumber(estimate), cost, ticket, entitled_to(key, 5 * i - 4))
    end
    note_excess(key, owed, 0)
    least, most = math.min(least or returned, returned), math.max(most, owed)
  end
end
local words = {'settled', int(cost), int(least or 0), int(most)}
redis.call('SET', KEYS[2], table.concat(words, ' '), 'KEEPTTL')
return words
