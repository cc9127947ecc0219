-- One agent's look at its region: what it says of itself, and what it sees. Also its word when it leaves.
--
-- KEYS[1..5]  the lease record, the lock of who renews, the region's agents, their reports, their policy sets
-- ARGV[1..5]  the store, who looks, its name, how often it was in a hurry, whether it reaches a coordinator that the one
--             who renews may not
-- ARGV[6..9]  when it takes the lock: if it was given back, if there is none, if it is still this ('-': not), if this
--             agent holds it ('-': none)
-- ARGV[10]    '1': it leaves; '2': it gives the lock back; '0': neither
-- ARGV[11]    its reports (empty: as they are)
-- ARGV[12]    the response whose terms it knows, with the nonce of its session
--
-- The lock is a text of token, holder ('-': given back) and a count of the holder's looks. It outlives its holder, so
-- that tokens grow; nobody's turn ends by the store's clock.
local me, leaves, gives_back = ARGV[2], ARGV[10] == '1', ARGV[10] ~= '0'

local function whole(n)
  return string.format('%.0f', n)
end

local lock = redis.call('GET', KEYS[2])
local token, holder, beats = 0, nil, 0
if lock then
  local t, h, b = string.match(lock, '^(%d+) (%S+) (%d+)$')
  if not t then
    error('unreadable lock ' .. KEYS[2])
  end
  token, holder, beats = tonumber(t), h, tonumber(b)
end

local function keep_lock()
  lock = whole(token) .. ' ' .. holder .. ' ' .. whole(beats)
  redis.call('SET', KEYS[2], lock, 'PX', RECORD_LIFE_MS)
end

local function may_take()
  if not lock then
    return ARGV[7] == '1'
  end
  return holder == '-' and ARGV[6] == '1' or lock == ARGV[8] or holder ~= '-' and holder == ARGV[9]
end

if holder == me then
  if gives_back then
    holder, beats = '-', 0
  else
    beats = beats + 1
  end
  keep_lock()
elseif not gives_back and may_take() then
  token, holder, beats = token + 1, me, 0
  keep_lock()
end

local peers = {}
local known = redis.call('HGETALL', KEYS[3])
for i = 1, #known, 2 do
  local seen, urges, reaches, name = string.match(known[i + 1], '^(%d+) (%d+) ([01]) (.*)$')
  if known[i] == me then
    -- said anew below
  elseif not seen or math.abs(now - tonumber(seen)) > AGENT_LIFE then
    redis.call('HDEL', KEYS[3], known[i])
  else
    for _, word in ipairs({known[i], urges, reaches, name}) do
      peers[#peers + 1] = word
    end
  end
end

if leaves then
  redis.call('HDEL', KEYS[3], me)
else
  redis.call('HSET', KEYS[3], me, table.concat({whole(now), ARGV[4], ARGV[5], ARGV[3]}, ' '))
  redis.call('PEXPIRE', KEYS[3], AGENTS_LIFE_MS)
end
if ARGV[11] ~= '' then
  redis.call('HSET', KEYS[4], me, ARGV[11])
end
redis.call('PEXPIRE', KEYS[4], AGENTS_LIFE_MS)
local shelved = holder == me and redis.call('PEXPIRE', KEYS[5], RECORD_LIFE_MS) == 1 or redis.call('EXISTS', KEYS[5]) == 1

local reply = {'seen', whole(now), lock or '-'}
local record = redis.call('HMGET', KEYS[1], 'session', 'seq', 'applied', 'nonce', 'policies', 'shelf', 'renewal', 'store',
  'evicted')
if record[1] and not has_lost(record[8], record[1], record[2], record[9]) then
  local applied = record[3] and string.match(record[3], '^%d+') or '0'
  local knows = ARGV[12] == record[1] .. ' ' .. applied .. ' ' .. record[4]
  for _, word in ipairs({
    '1', record[1] .. ' ' .. record[2] .. ' ' .. applied .. ' ' .. record[4], record[5],
    shelved and record[6] or '-', not knows and record[7] or '-',
  }) do
    reply[#reply + 1] = word
  end
else
  reply[#reply + 1] = '0'
end
reply[#reply + 1] = whole(#peers / 4)
for _, word in ipairs(peers) do
  reply[#reply + 1] = word
end
return reply
