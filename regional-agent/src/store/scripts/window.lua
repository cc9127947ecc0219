-- Units of a window: the same as window.rs of the limiter. Which window is open, and what a floor was in
-- windows that began under another policy set, the caller has computed: a script knows no calendar.

-- What is granted of a window, floor included, and what it can have come to at most before it was lost.
local function granted_of(budget, label)
  local units, used_at_most = string.match(
    redis.call('HGET', lease, 'g:' .. budget .. ':' .. label) or '0 0', '^(%d+) (%d+)$')
  return tonumber(units), tonumber(used_at_most)
end

-- What was spent of a window, what was used beyond that, and since which loss of state; or nil: counts from before a
-- loss say nothing.
local function stored_units(key, label)
  local text = redis.call('GET', key)
  if not text then
    return nil
  end
  local its, spent, lost, rest = string.match(text, '^(%d+) (%d+) (%S+)(.*)$')
  local beyond = string.match(rest or '', '^ (%d+)$')
  if not its or (rest ~= '' and not beyond) then
    error('unreadable units ' .. key)
  end
  if its == label and (not lost_at or tonumber(lost) == lost_at) then
    return tonumber(spent), tonumber(beyond or '0'), lost
  end
  return nil
end

-- Value and expiry in one command: nothing is ever there without an end.
local function keep_units(key, label, ends, spent, beyond)
  local text = label .. ' ' .. int(spent) .. ' ' .. (lost_at and int(lost_at) or '-')
  if beyond > 0 then
    text = text .. ' ' .. int(beyond)
  end
  redis.call('SET', key, text, 'PX', int(up((ends - now) / 1000) + GRACE / 1000))
end

-- How an allowance stands in the window from `label` (a number as text) to `ends`; nil if that is not
-- the one that the clock shows.
local function purse_of(key, changed, label, ends, floor)
  local start, shown = tonumber(label), max(now, clock)
  if shown < start or shown >= ends then
    return nil
  end
  local units, used_at_most = granted_of(string.match(key, ':bucket:(.*)$'), label)
  local spent, beyond = stored_units(key, label)
  if not spent then
    local change = change_of(changed)
    local anew = change and change.anew_at and start <= change.anew_at
    spent = (is_burnt(start) or anew) and max(floor, used_at_most) or 0
  end
  return {spent = spent, beyond = beyond or 0, usable = max(floor, units)}
end

-- A charge on a window. Arguments: its beginning and end, the floor in it.
local function window_account(key, way, cost)
  local a = way.at
  local label, ends, floor = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  local purse = purse_of(key, way.changed, label, ends, floor)
  if not purse then
    return nil
  end
  local account = {fits = cost == 0 or purse.usable - purse.spent - purse.beyond >= cost}
  function account.take()
    purse.spent = purse.spent + cost
  end
  function account.keep(taken)
    -- what a window that was lost came to is not known before it is told, so it is not written down
    if not taken then
      return
    end
    note_clock(tonumber(label))
    keep_units(key, label, ends, purse.spent, purse.beyond)
  end
  function account.reserve()
    return string.format('window %s %.0f %.0f', label, ends, floor)
  end
  function account.answer()
    local used = exact(purse.spent + purse.beyond)
    return {account.fits and '1' or '0', int(purse.usable), int(used), int(max(0, ends - now))}
  end
  return account
end

-- Units spent of a window. Arguments: its beginning and end, the floor in it.
local function window_usage(key, changed, a)
  local purse = purse_of(key, changed, ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]))
  return purse and int(purse.spent), a + 3
end

-- Puts the true cost in the place of an estimate, if its window is still open: what is given back, and what was not
-- there to be taken.
local function settle_window(key, estimate, cost, ticket)
  local label, ends, floor = string.match(ticket, '^(%d+) (%d+) (%d+)$')
  local stored, beyond, lost = stored_units(key, label)
  local excess = max(0, cost - estimate)
  if not stored or lost ~= (lost_at and int(lost_at) or '-') or max(now, clock) >= tonumber(ends) then
    return 0, excess
  end
  local usable = max(tonumber(floor), (granted_of(string.match(key, ':bucket:(.*)$'), label)))
  local returned = min(max(0, estimate - cost), stored)
  local spent, more = stored - returned, exact(beyond + excess)
  local there = min(more, max(0, usable - spent))
  spent, more = spent + there, more - there
  if spent ~= stored or more ~= beyond then
    keep_units(key, label, tonumber(ends), spent, more)
  end
  return returned, min(excess, more)
end
