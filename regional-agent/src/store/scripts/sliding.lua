-- A sliding-window counter: the same arithmetic as sliding.rs of the limiter, to the last digit.

-- At most 2^37 parts of a window are told apart: what is left of it is rounded up to whole parts, and its
-- length down.
local MAX_PARTS = 137438953472

-- units * part / whole, rounded up; part < whole <= 2^37. The long division of refilled in bucket.lua.
local function weighed(units, part, whole)
  local quotient, remainder, scale = 0, 0, 35184372088832
  for _ = 1, 4 do
    local digit = down(units / scale)
    units = units - digit * scale
    scale = scale / 32768
    local dividend = remainder * 32768 + part * digit
    local quotient_digit = down(dividend / whole)
    remainder = dividend - quotient_digit * whole
    quotient = quotient * 32768 + quotient_digit
  end
  if remainder > 0 then
    quotient = quotient + 1
  end
  return quotient
end

-- What counts while so much of the newest window is left. A sum that a double has rounded is beyond any
-- entitlement as it is.
local function estimate(count, left, length)
  local size = up(length / MAX_PARTS)
  local parts, part = down(length / size), up(left / size)
  if part >= parts then
    return count.current + count.previous
  end
  return count.current + weighed(count.previous, part, parts)
end

-- What was taken in a window and in the one before, as of now.
local function settled_count(stored, index)
  if not stored then
    return {index = index, current = 0, previous = 0}
  elseif stored.index > index + 1 then
    -- a clock that stepped back further than a window: all counts as taken in this one
    return {index = index, current = exact(stored.current + stored.previous), previous = 0}
  elseif stored.index >= index then
    return stored
  elseif stored.index == index - 1 then
    return {index = index, current = 0, previous = stored.current}
  end
  return {index = index, current = 0, previous = 0}
end

local function count_text(count)
  return int(count.index) .. ' ' .. int(count.current) .. ' ' .. int(count.previous)
end

local function stored_count(key)
  local text = redis.call('GET', key)
  if not text then
    return nil
  end
  local index, current, previous = string.match(text, '^(%d+) (%d+) (%d+)$')
  if not index then
    error('unreadable count ' .. key)
  end
  return {index = tonumber(index), current = tonumber(current), previous = tonumber(previous)}, text
end

-- A count as of now, and what is left of its newest window.
local function count_now(stored, length)
  local index = down(now / length)
  local count = settled_count(stored, index)
  local left = length - (now - index * length)
  if count.index > index then
    left = left + length
  end
  return count, left
end

-- Writes down what a count has come to; nothing if that is the text that it was.
local function keep_count(key, count, text, left, length)
  if count.current + count.previous == 0 then
    if text then
      redis.call('DEL', key)
    end
  elseif count_text(count) ~= text then
    redis.call('SET', key, count_text(count), 'PX', int(up(left / 1000) + share_life(length)))
  end
end

-- A charge on a count. Arguments: the length of a window, and see share_of.
local function sliding_account(key, way, cost, view)
  local length = tonumber(ARGV[way.at])
  local share = share_of(holdings[key], way.changed, way.at + 1, view)
  local stored, text = stored_count(key)
  local count, left = count_now(stored, length)
  local account = {fits = share_fits(share, estimate(count, left, length), cost), leased = share.leased}
  function account.take()
    count = {index = count.index, current = count.current + cost, previous = count.previous}
  end
  function account.reserve()
    return string.format('sliding %.0f %.0f', count.index, length)
  end
  function account.keep()
    keep_count(key, count, text, left, length)
  end
  function account.answer()
    return {
      account.fits and '1' or '0', int(share.entitlement), int(share.quarantine), share.leased and '1' or '0',
      int(count.current), int(count.previous), int(left),
    }
  end
  return account
end

-- What counts of a count. Arguments: the length of a window, keep.
local function sliding_usage(key, changed, a)
  local length, keep = tonumber(ARGV[a]), tonumber(ARGV[a + 1])
  if quarantine(changed, keep) > 0 then
    return UNKNOWN, a + 2
  end
  local count, left = count_now(stored_count(key), length)
  return int(exact(estimate(count, left, length))), a + 2
end

-- Puts the true cost in the place of an estimate: what is given back, and what was not there to be taken. Nothing is
-- given back if the window counts no more, or holds so little that the estimate is not in it.
local function settle_sliding(key, reserved, cost, ticket, entitlement)
  local index, length = string.match(ticket, '^(%d+) (%d+)')
  length = tonumber(length)
  local stored, text = stored_count(key)
  local known, left = count_now(stored, length)
  local count = {index = known.index, current = known.current, previous = known.previous}
  local part, returned = ({[0] = 'current', [1] = 'previous'})[count.index - tonumber(index)], 0
  if part and count[part] >= reserved then
    returned = max(0, reserved - cost)
    count[part] = count[part] - returned
  end
  local there = max(0, entitlement - estimate(count, left, length))
  local excess = max(0, cost - reserved)
  count.current = exact(count.current + excess)
  keep_count(key, count, text, left, length)
  return returned, max(0, excess - there)
end
