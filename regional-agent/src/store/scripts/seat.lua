-- One agent's word on its seat, and who has which.
--
-- KEYS[2]       the seats
-- ARGV[2..3]    who asks, the policy sets that it goes by
-- ARGV[4..5]    windows up to then may have been used by it, how many seats there are
-- ARGV[6]       an earlier life of the agent, which is over ('-': none)
-- ARGV[7..8]    the seat that it has ('0': none), and the number under which it has it
-- ARGV[9]       whether nobody in this region can have had a seat before, under these policy sets or others
-- ARGV[10..11]  the number to keep the seats under if there are none, that under which they are complete ('-': none)
-- ARGV[12]      whether it leaves
-- ARGV[13..]    agents whose right has ended, each with its entry as it was seen
--
-- Seats that were kept before the store's state was lost say nothing of those given out since: who has one says so, and
-- until all who may have one had the time to, or all there are were named, nobody is given any.
local seats, me = KEYS[2], ARGV[2]
local genesis = ARGV[9] == '1'
local state = store .. ' ' .. (record[11] or '-')
local kept = redis.call('HMGET', seats, 'born', 'settled', 'ever', 'state', 'first')
if not kept[1] or kept[4] ~= state then
  redis.call('DEL', seats)
  kept = {ARGV[10], '0', '0'}
  redis.call('HSET', seats, 'born', kept[1], 'settled', '0', 'ever', '0', 'state', state)
end
redis.call('PEXPIRE', seats, RECORD_LIFE_MS)
local born, settled, ever, first = kept[1], kept[2] == '1', tonumber(kept[3]), kept[5]
if genesis and ARGV[3] == policies then
  first = policies
  redis.call('HSET', seats, 'first', first)
end
if genesis or ARGV[11] == born then
  settled = true
  redis.call('HSET', seats, 'settled', '1')
end

local function entry_of(agent)
  return 'a:' .. agent
end

for i = 13, #ARGV, 2 do
  if ARGV[i] ~= me and redis.call('HGET', seats, entry_of(ARGV[i])) == ARGV[i + 1] then
    redis.call('HDEL', seats, entry_of(ARGV[i]))
  end
end
if ARGV[6] ~= '-' then
  redis.call('HDEL', seats, entry_of(ARGV[6]))
end
if ARGV[12] == '1' then
  redis.call('HDEL', seats, entry_of(me))
  return {'done'}
end

local own, taken, entries = nil, {}, {}
local known = redis.call('HGETALL', seats)
for i = 1, #known, 2 do
  local agent = string.match(known[i], '^a:(.*)$')
  if agent == me then
    own = known[i + 1]
  elseif agent then
    taken[string.match(known[i + 1], '^%d+')] = true
    entries[#entries + 1] = agent
    entries[#entries + 1] = known[i + 1]
  end
end

-- given '0': it goes on, '1': it begins, and others may have had it, '2': nobody ever had it
local seat, beats, given = 0, 0, '0'
if own then
  seat, beats = string.match(own, '^(%d+) (%d+) ')
  seat, beats = tonumber(seat), tonumber(beats)
elseif ARGV[7] ~= '0' and not settled and ARGV[8] ~= born and not taken[ARGV[7]] then
  seat = tonumber(ARGV[7])
elseif settled and ARGV[3] == policies then
  for free = 1, tonumber(ARGV[5]) do
    if not taken[string.format('%.0f', free)] then
      seat = free
      break
    end
  end
  -- by later sets others may have had what it has now
  given = first == policies and seat > ever and '2' or '1'
end
if seat > 0 then
  local entry = string.format('%.0f %.0f %s %s', seat, beats + 1, ARGV[4], ARGV[3])
  redis.call('HSET', seats, entry_of(me), entry, 'ever', string.format('%.0f', math.max(ever, seat)))
  taken[string.format('%.0f', seat)] = true
  entries[#entries + 1] = me
  entries[#entries + 1] = entry
end
if not settled and not burnt and ARGV[3] == policies and ARGV[5] ~= '0' then
  settled = true
  for each = 1, tonumber(ARGV[5]) do
    settled = settled and taken[string.format('%.0f', each)]
  end
  redis.call('HSET', seats, 'settled', settled and '1' or '0')
end
local reply = {'done', string.format('%.0f', now), policies, string.format('%.0f', seat), given, born, settled and '1' or '0'}
reply[#reply + 1] = string.format('%.0f', #entries / 2)
for _, word in ipairs(entries) do
  reply[#reply + 1] = word
end
return reply
