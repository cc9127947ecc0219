-- A sliding log: the same arithmetic as use_log.rs of the limiter, to the last digit.
--
-- A list: what its entries add up to, then for each when and how much, oldest first, no two of one instant.

local function log_entry(text)
  local at, units = string.match(text or '', '^(%d+) (%d+)$')
  return tonumber(at), tonumber(units)
end

-- A log as it was last written. log.entry(i) is when and how much; nothing after the newest. Read by and by,
-- for a decision seldom looks at more than a few.
local function stored_log(key)
  local texts, size, whole = {}, 8, false
  local function text(i)
    while not texts[i] and not whole do
      local more = redis.call('LRANGE', key, #texts, #texts + size - 1)
      for _, found in ipairs(more) do
        texts[#texts + 1] = found
      end
      whole = #more < size
      size = min(size * 4, 1024)
    end
    return texts[i]
  end
  local total = text(1)
  if total and not string.match(total, '^%d+$') then
    error('unreadable log ' .. key)
  end
  local function entry(i)
    return log_entry(text(i + 1))
  end
  local function newest()
    return redis.call('LINDEX', key, -1)
  end
  return {there = total ~= nil, total = tonumber(total or '0'), entry = entry, newest = newest}
end

-- Until a unit is forgotten; one from a clock that has stepped back since counts from now on.
local function forgotten_in(at, keep)
  return keep + 1 - since(at)
end

-- How many entries are expired, and what counts of the others.
local function counted_in(log, keep)
  local expired, counted = 0, log.total
  local at, units = log.entry(1)
  while at and since(at) > keep do
    expired, counted = expired + 1, counted - units
    at, units = log.entry(expired + 1)
  end
  return expired, counted
end

-- Until at most goal counts of what counts after the expired entries.
local function log_time_until(log, expired, counted, goal, keep)
  if goal == 0 and counted > 0 then
    return forgotten_in(log_entry(log.newest()), keep)
  end
  local wait, i = 0, expired
  while counted > goal do
    i = i + 1
    local at, units = log.entry(i)
    counted, wait = counted - units, forgotten_in(at, keep)
  end
  return wait
end

-- An entry of now with these units, and with all that is dated no earlier.
local function log_append(key, units)
  local at, later = log_entry(redis.call('LINDEX', key, -1))
  while at and at >= now do
    redis.call('RPOP', key)
    units = units + later
    at, later = log_entry(redis.call('LINDEX', key, -1))
  end
  return redis.call('RPUSH', key, int(now) .. ' ' .. int(units))
end

-- Beyond MAX_LOG_ENTRIES the two oldest become one.
local function log_merge_oldest(key)
  local _, units = log_entry(redis.call('LPOP', key))
  local at, next_units = log_entry(redis.call('LINDEX', key, 0))
  redis.call('LSET', key, 0, int(at) .. ' ' .. int(units + next_units))
end

-- Writes down what a log has come to, with what is taken; nothing if that is what it was.
local function keep_log(key, log, expired, counted, taken, keep)
  local newest = log_entry(log.newest())
  local stepped_back = newest and newest > now
  if taken == 0 and expired == 0 and not stepped_back then
    return
  end
  if log.there then
    redis.call('LTRIM', key, expired + 1, -1)
  end
  if counted + taken == 0 then
    return
  end
  if (taken > 0 or stepped_back) and log_append(key, taken) > MAX_LOG_ENTRIES then
    log_merge_oldest(key)
  end
  redis.call('LPUSH', key, int(counted + taken))
  redis.call('PEXPIRE', key, int(share_life(keep)))
end

-- A charge on a log. Arguments: see share_of.
local function log_account(key, way, cost, view)
  local share = share_of(holdings[key], way.changed, way.at, view)
  local log = stored_log(key)
  local expired, counted = counted_in(log, share.keep)
  local account, taken, admits_in = {fits = share_fits(share, counted, cost), leased = share.leased}, 0, 0
  if not account.fits and cost <= share.entitlement then
    admits_in = log_time_until(log, expired, counted, share.entitlement - cost, share.keep)
  end
  function account.take()
    taken = cost
  end
  function account.keep()
    keep_log(key, log, expired, counted, taken, share.keep)
  end
  function account.reserve()
    return string.format('log %.0f %.0f', now, share.keep)
  end
  function account.answer()
    local empty_in = 0
    if counted + taken > 0 then
      empty_in = forgotten_in(log_entry(log.newest()), share.keep)
    end
    return {
      account.fits and '1' or '0', int(share.entitlement), int(share.quarantine), share.leased and '1' or '0',
      int(counted + taken), int(admits_in), int(empty_in),
    }
  end
  return account
end

-- What counts of a log. Argument: keep.
local function log_usage(key, changed, a)
  local keep = tonumber(ARGV[a])
  if quarantine(changed, keep) > 0 then
    return UNKNOWN, a + 1
  end
  local _, counted = counted_in(stored_log(key), keep)
  return int(counted), a + 1
end

-- Where the entry of this instant is, or of the first one after it.
local function log_place(key, at)
  local first, last = 1, redis.call('LLEN', key)
  while first < last do
    local middle = down((first + last) / 2)
    if log_entry(redis.call('LINDEX', key, middle)) < at then
      first = middle + 1
    else
      last = middle
    end
  end
  return first
end

-- Puts a lower true cost in the place of an estimate that was taken at an instant: what is given back. Nothing if the
-- entry of that instant is gone, or holds so little that the estimate is in another one by now.
local function log_lower(key, at, keep, estimate, cost)
  local returned = estimate - cost
  if returned <= 0 or since(at) > keep then
    return 0
  end
  local place = log_place(key, at)
  local text = redis.call('LINDEX', key, place)
  local found, units = log_entry(text)
  if found ~= at or units < estimate then
    return 0
  end
  if units == returned then
    redis.call('LREM', key, 1, text)
  else
    redis.call('LSET', key, place, int(at) .. ' ' .. int(units - returned))
  end
  local total = tonumber(redis.call('LINDEX', key, 0)) - returned
  if total == 0 then
    redis.call('DEL', key)
  else
    redis.call('LSET', key, 0, int(total))
    redis.call('PEXPIRE', key, int(share_life(keep)))
  end
  return returned
end

-- Puts the true cost in the place of an estimate: what is given back, and what was not there to be taken.
local function settle_log(key, estimate, cost, ticket, entitlement)
  local at, keep = string.match(ticket, '^(%d+) (%d+)')
  keep = tonumber(keep)
  local returned = log_lower(key, tonumber(at), keep, estimate, cost)
  local log = stored_log(key)
  local expired, counted = counted_in(log, keep)
  local excess = max(0, cost - estimate)
  keep_log(key, log, expired, counted, min(excess, MAX_EXACT - counted), keep)
  return returned, max(0, excess - max(0, entitlement - counted))
end
