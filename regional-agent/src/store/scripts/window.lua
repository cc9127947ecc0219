-- Units of a window: the same as window.rs of the limiter. Which window is open, and what a floor was in
-- windows that began under another policy set, the caller has computed: a script knows no calendar.

-- What is granted of a window, floor included, and what it can have come to at most before it was lost.
local function granted_of(budget, label)
  local units, used_at_most = string.match(
    redis.call('HGET', lease, 'g:' .. budget .. ':' .. label) or '0 0', '^(%d+) (%d+)$')
  return tonumber(units), tonumber(used_at_most)
end

-- What was spent of a window, or nil: counts from before a loss of state say nothing.
local function stored_units(key, label)
  local text = redis.call('GET', key)
  if not text then
    return nil
  end
  local its, spent, lost = string.match(text, '^(%d+) (%d+) (%S+)$')
  if not its then
    error('unreadable units ' .. key)
  end
  if its == label and (not lost_at or tonumber(lost) == lost_at) then
    return tonumber(spent)
  end
  return nil
end

-- How an allowance stands in the window from `label` (a number as text) to `ends`; nil if that is not
-- the one that the clock shows.
local function purse_of(key, changed, label, ends, floor)
  local start, shown = tonumber(label), math.max(now, clock)
  if shown < start or shown >= ends then
    return nil
  end
  local units, used_at_most = granted_of(string.match(key, ':bucket:(.*)$'), label)
  local spent = stored_units(key, label)
  if not spent then
    local change = change_of(changed)
    local anew = change and change.anew_at and start <= change.anew_at
    spent = (is_burnt(start) or anew) and math.max(floor, used_at_most) or 0
  end
  return {spent = spent, usable = math.max(floor, units)}
end

-- A charge on a window. Arguments: its beginning and end, the floor in it.
local function window_account(key, _, changed, cost, a)
  local label, ends = ARGV[a], tonumber(ARGV[a + 1])
  local purse = purse_of(key, changed, label, ends, tonumber(ARGV[a + 2]))
  if not purse then
    return nil, a + 3
  end
  local account = {fits = purse.usable - purse.spent >= cost}
  function account.take()
    purse.spent = purse.spent + cost
  end
  function account.keep(taken)
    -- what a window that was lost came to is not known before it is told, so it is not written down
    if not taken then
      return
    end
    note_clock(tonumber(label))
    local text = label .. ' ' .. int(purse.spent) .. ' ' .. (lost_at and int(lost_at) or '-')
    -- value and expiry in one command: nothing is ever there without an end
    redis.call('SET', key, text, 'PX', int(math.ceil((ends - now) / 1000) + GRACE / 1000))
  end
  function account.answer()
    return {account.fits and '1' or '0', int(purse.usable), int(purse.spent), int(math.max(0, ends - now))}
  end
  return account, a + 3
end

-- Units spent of a window. Arguments: its beginning and end, the floor in it.
local function window_usage(key, changed, a)
  local purse = purse_of(key, changed, ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]))
  return purse and int(purse.spent), a + 3
end
