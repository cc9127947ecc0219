-- Slots of a concurrency limit: the same as slots.rs of the limiter, to the last digit.
--
-- A sorted set: for each slot its id and units, scored by when it was taken; before them '', scored by what
-- they add up to, below zero. Never empty: without a slot there is no key.

local function slot_units(member)
  return tonumber(string.match(member, ':(%d+)$'))
end

-- What has ended was taken before this.
local function slots_begin(keep)
  return now - keep
end

-- What counts, how many have ended, how many there are, and what all of them add up to.
local function counted_slots(key, keep)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if not first[1] then
    return 0, 0, 0, 0
  end
  local total = -tonumber(first[2])
  local counted = total
  local ended = redis.call('ZRANGEBYSCORE', key, 0, '(' .. int(max(0, slots_begin(keep))))
  for _, member in ipairs(ended) do
    counted = counted - slot_units(member)
  end
  return counted, #ended, redis.call('ZCARD', key) - 1, total
end

-- Until a slot that was taken at this instant ends; one from a clock that has stepped back counts from now on.
local function slot_ends_in(key, place, keep)
  return keep + 1 - since(tonumber(redis.call('ZRANGE', key, place, place, 'WITHSCORES')[2]))
end

-- Until at most goal counts.
local function slots_time_until(key, ended, counted, goal, keep)
  if counted <= goal then
    return 0
  end
  local place, size = ended + 1, 8
  while true do
    local members = redis.call('ZRANGE', key, place, place + size - 1)
    for i, member in ipairs(members) do
      counted = counted - slot_units(member)
      if counted <= goal then
        return slot_ends_in(key, place + i - 1, keep)
      end
    end
    if #members < size then
      error('unreadable slots ' .. key)
    end
    place, size = place + size, min(size * 4, 1024)
  end
end

-- Writes down how many count.
local function keep_total(key, total)
  if total == 0 then
    redis.call('DEL', key)
  else
    redis.call('ZADD', key, int(-total), '')
  end
end

-- A charge on slots. Arguments: see share_of.
local function slots_account(key, way, cost, view)
  local share = share_of(holdings[key], way.changed, way.at, view)
  local keep = share.keep
  local counted, ended, all, total = counted_slots(key, keep)
  local room = all - ended < MOST_SLOTS
  local account = {fits = (room or cost == 0) and share_fits(share, counted, cost), leased = share.leased, slot = keep}
  local taken, admits_in = 0, 0
  if not account.fits and cost <= share.entitlement then
    admits_in = slots_time_until(key, ended, counted, share.entitlement - cost, keep)
    if not room then
      admits_in = max(admits_in, slot_ends_in(key, ended + 1, keep))
    end
  end
  function account.take()
    taken = cost
  end
  function account.reserve()
    return 'slot ' .. view.slot .. ' ' .. int(keep)
  end
  function account.keep()
    local later = redis.call('ZRANGEBYSCORE', key, '(' .. int(now), '+inf')
    if taken == 0 and ended == 0 and #later == 0 then
      return
    end
    if ended > 0 then
      redis.call('ZREMRANGEBYSCORE', key, 0, '(' .. int(slots_begin(keep)))
      note_excess(key, 0, total - counted)
    end
    for _, member in ipairs(later) do
      redis.call('ZADD', key, int(now), member)
    end
    if taken > 0 then
      redis.call('ZADD', key, int(now), view.slot .. ':' .. int(taken))
    end
    keep_total(key, counted + taken)
    redis.call('PEXPIRE', key, int(up(keep / 1000) + SLOTS_REMEMBERED / 1000))
  end
  function account.answer()
    local empty_in = 0
    if counted + taken > 0 then
      empty_in = slot_ends_in(key, -1, keep)
    end
    return {
      account.fits and '1' or '0', int(share.entitlement), int(share.quarantine), share.leased and '1' or '0',
      int(counted + taken), int(admits_in), int(empty_in),
    }
  end
  return account
end

-- What is kept of a slot, unless it has ended, or was given back.
local function held_slot(key, ticket, units)
  local id, keep = string.match(ticket, '^(%x+) (%d+)$')
  local member = id .. ':' .. int(units)
  local at = redis.call('ZSCORE', key, member)
  return at and since(tonumber(at)) <= tonumber(keep) and member or nil
end

-- Gives a slot back. True unless it has ended, or was given back before.
local function release_slot(key, ticket, units)
  local member = held_slot(key, ticket, units)
  if not member then
    return false
  end
  redis.call('ZREM', key, member)
  keep_total(key, -tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) - units)
  return true
end

-- What counts of a budget.
local function slots_usage(key, changed, a)
  local keep = tonumber(ARGV[a])
  if quarantine(changed, keep) > 0 then
    return UNKNOWN, a + 1
  end
  local counted = counted_slots(key, keep)
  return int(counted), a + 1
end
