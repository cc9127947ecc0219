-- The token bucket: the same arithmetic as bucket.rs of the limiter, to the last digit.
--
-- Every amount is an integer in [0, 2^53), which a double holds exactly; it comes and goes as
-- decimal text, or as seven bytes. For such a and b > 0, down(a / b) is the exact quotient: the nearest
-- integer above a / b is at least 1/b away, more than the rounding of a quotient below 2^53 / b.
local down, up, min, max = math.floor, math.ceil, math.min, math.max
local pack, unpack_bytes = struct.pack, struct.unpack

local function int(n)
  return string.format('%.0f', n)
end

-- n after a sum of two amounts: a double may have rounded it, but not across 2^53.
local function exact(n)
  return min(n, MAX_EXACT)
end

local function capped(level, fraction, cap)
  if level >= cap then
    return cap, 0
  end
  return level, fraction
end

-- level and fraction after elapsed at rate in each period (at most 2^37), at most cap.
--
-- elapsed is whole periods, which give rate each, and a rest below the period. rest * rate / period
-- is a long division by the digits of rate to the base 2^15: remainder and rest are below 2^37, so
-- remainder * 2^15 + rest * digit <= (2^37 - 1) * 2^15 + (2^37 - 1) * (2^15 - 1) < 2^53.
local function refilled(level, fraction, cap, elapsed, rate, period)
  if level >= cap then
    return cap, 0
  end
  -- mostly all of it is below 2^53; a product that a double has rounded is not
  local all = elapsed * rate + fraction
  if all <= MAX_EXACT then
    local gained = down(all / period)
    if gained >= cap - level then
      return cap, 0
    end
    return level + gained, all - gained * period
  end
  local periods = down(elapsed / period)
  local rest = elapsed - periods * period
  -- inexact only beyond 2^53, where it is beyond any cap too
  local whole = periods * rate
  if whole >= cap - level then
    return cap, 0
  end
  local quotient, remainder, scale = 0, 0, 35184372088832
  for _ = 1, 4 do
    local digit = down(rate / scale)
    rate = rate - digit * scale
    scale = scale / 32768
    local dividend = remainder * 32768 + rest * digit
    local part = down(dividend / period)
    remainder = dividend - part * period
    quotient = quotient * 32768 + part
  end
  remainder = remainder + fraction
  if remainder >= period then
    remainder = remainder - period
    quotient = quotient + 1
  end
  if quotient >= cap - level - whole then
    return cap, 0
  end
  return level + whole + quotient, remainder
end

-- The same, for slow of it at half the rate.
local function refilled_slowly(level, fraction, cap, elapsed, slow, rate, period)
  slow = min(slow, elapsed)
  if slow > 0 then
    level, fraction = refilled(level, fraction, cap, slow, down(rate / 2), period)
  end
  return refilled(level, fraction, cap, elapsed - slow, rate, period)
end

-- rate * keep / 10^6, rounded down; keep is at most 10^6.
local function shortened(rate, keep)
  local whole = down(rate / 1000000)
  return whole * keep + down((rate - whole * 1000000) * keep / 1000000)
end

-- Time to fill burst, in whole seconds, rounded up.
local function fill_time(burst, rate, period)
  if burst == 0 then
    return 0
  end
  return min(down(burst / rate * period / 1000000) + 1, LONGEST_LIFE)
end

-- What the region may use of one budget: terms.rate, .burst and so on, by what is held of it.
-- floor: rate, burst, lendable_rate, lendable_burst, period.
-- view: leased, whole, standing (the lenders that promise, as ' eu us '), keep.
local function terms_of(holding, floor, view)
  local word = {}
  for text in string.gmatch(holding, '%S+') do
    word[#word + 1] = text
  end
  local lent_rate, lent_burst = tonumber(word[3]), tonumber(word[4])
  local own_rate, own_burst = max(0, floor.rate - lent_rate), max(0, floor.burst - lent_burst)
  local rate, burst = own_rate, own_burst
  if view.whole then
    rate, burst = floor.rate, floor.burst
  end
  local floor_rate, floor_burst = rate, burst
  local utmost_rate, utmost_burst = rate, burst
  local function add(leased_rate, leased_burst, stands)
    utmost_rate, utmost_burst = exact(utmost_rate + leased_rate), exact(utmost_burst + leased_burst)
    if view.leased and stands then
      rate, burst = exact(rate + leased_rate), exact(burst + leased_burst)
    end
  end
  add(tonumber(word[1]), tonumber(word[2]), true)
  for i = 5, #word, 3 do
    local stands = string.find(view.standing, ' ' .. word[i] .. ' ', 1, true)
    add(tonumber(word[i + 1]), tonumber(word[i + 2]), stands)
  end
  return {
    full_rate = rate, burst = burst, rate = shortened(rate, view.keep),
    own_burst = own_burst, own_rate = shortened(own_rate, view.keep),
    utmost_burst = utmost_burst, utmost_rate = shortened(utmost_rate, view.keep),
    lent_rate = lent_rate, lent_burst = lent_burst, lent = lent_rate > 0 or lent_burst > 0,
    period = floor.period, keep = view.keep, whole = view.whole,
    leased = rate ~= floor_rate or burst ~= floor_burst,
  }
end

-- What is held of a budget of which floor.lendable may be lent: as recorded, or by default.
local function holding_of(recorded, floor)
  if recorded then
    return recorded
  elseif burnt then
    return '0 0 ' .. int(floor.lendable_rate) .. ' ' .. int(floor.lendable_burst)
  end
  return '0 0 0 0'
end

-- The last change of a policy's limits, or nil.
local function change_of(recorded)
  if not recorded then
    return nil
  end
  local at, rate, burst, slowed, anew_at = string.match(recorded, '^(%d+) (%d+) (%d+) (%S+) (%S+)$')
  -- when a refill was slowed for the first and for the last time; of an older record only the first is known
  local first, last = string.match(slowed, '^(%d+),?(%d*)$')
  return {
    at = tonumber(at), rate = tonumber(rate), burst = tonumber(burst),
    slowed_first = tonumber(first), slowed_last = first and (tonumber(last) or tonumber(at)), anew_at = tonumber(anew_at),
  }
end

local function since(instant)
  return max(0, now - instant)
end

-- Estimates that are out: all of them, the hold with which they began, and sums by when they end, soonest first.
local NO_ESTIMATES = {total = 0, era = string.rep('0', 32)}

-- When an estimate ends that is held for so long from now on.
local function estimate_end(life)
  local grain = LEAST_GRAIN
  while life > grain * GRAINS do
    grain = grain * 2
  end
  return up(exact(now + life) / grain) * grain
end

local function aged(estimates, last)
  if estimates == NO_ESTIMATES or down(now / LEAST_GRAIN) < down(last / LEAST_GRAIN) then
    return NO_ESTIMATES
  end
  local kept = {total = 0, era = estimates.era}
  for _, one in ipairs(estimates) do
    if one.ends > now then
      kept.total, kept[#kept + 1] = kept.total + one.sum, one
    end
  end
  return #kept > 0 and kept or NO_ESTIMATES
end

local function within(estimates, burst)
  if estimates.total > burst then
    return NO_ESTIMATES
  end
  return estimates
end

-- With one more, that ends then, of this hold.
local function with_estimate(estimates, id, ends, units)
  local all = {total = estimates.total + units, era = estimates ~= NO_ESTIMATES and estimates.era or id}
  local added = false
  for _, one in ipairs(estimates) do
    if not added and one.ends >= ends then
      added = true
      if one.ends == ends then
        one = {ends = ends, sum = one.sum + units}
      else
        all[#all + 1] = {ends = ends, sum = units}
      end
    end
    all[#all + 1] = one
  end
  if not added then
    all[#all + 1] = {ends = ends, sum = units}
  end
  return all
end

-- Without what is known of these units, which end then: the rest, and what was known.
local function without_estimate(estimates, ends, units)
  local rest, known = {total = estimates.total, era = estimates.era}, 0
  for _, one in ipairs(estimates) do
    if one.ends == ends then
      known = min(units, one.sum)
      rest.total, one = rest.total - known, {ends = ends, sum = one.sum - known}
    end
    if one.sum > 0 then
      rest[#rest + 1] = one
    end
  end
  return #rest > 0 and rest or NO_ESTIMATES, known
end

-- Until no more than most is out, though none is settled.
local function estimates_end_in(estimates, most)
  local left, wait = estimates.total, 0
  for _, one in ipairs(estimates) do
    if left <= most then
      break
    end
    left, wait = left - one.sum, one.ends - now
  end
  return wait
end

-- For how long a refill at half its rate repays what is owed.
local function slow_for(owed, rate, period)
  if owed == 0 or rate == 0 then
    return 0
  end
  local repaid = rate - down(rate / 2)
  return down(min(min(owed, MAX_EXACT) / repaid * period, LONGEST_LIFE * 1000000)) + 1
end

-- A bucket is kept in one of two forms. Mostly as bytes: 1, or 2 under the whole floor, then level, fraction, when that
-- was, rate and epoch. While estimates are out or a debt slows it, and by agents of versions before there were bytes,
-- as text, which begins with a digit: the same numbers, and then how long it is slow yet, the era, and for each sum when
-- it ends and how much it is.
local BYTES = '>BI7I5I7I7I7'

local function bucket_of_text(text, key)
  local level, fraction, last, rate, whole, seen, rest =
    string.match(text, '^(%d+) (%d+) (%d+) (%d+) ([01]) (%d+)(.*)$')
  local slow, era, sums = string.match(rest or '', '^ (%d+) (%x+)([ %d]*)$')
  if not level or (rest ~= '' and not slow) then
    error('unreadable bucket ' .. key)
  end
  local estimates = NO_ESTIMATES
  for ends, sum in string.gmatch(sums or '', ' (%d+) (%d+)') do
    if estimates == NO_ESTIMATES then
      estimates = {total = 0, era = era}
    end
    estimates.total = estimates.total + tonumber(sum)
    estimates[#estimates + 1] = {ends = tonumber(ends) * LEAST_GRAIN, sum = tonumber(sum)}
  end
  return {
    estimates = estimates,
    slow = tonumber(slow or '0'),
    level = tonumber(level), fraction = tonumber(fraction), last = tonumber(last),
    rate = tonumber(rate), whole = whole == '1', epoch = tonumber(seen),
  }
end

-- A bucket as it was written.
local function bucket_of(text, key)
  if #text ~= 34 or string.byte(text) > 2 then
    return bucket_of_text(text, key)
  end
  local form, level, fraction, last, rate, seen = unpack_bytes(BYTES, text)
  return {
    estimates = NO_ESTIMATES, slow = 0, level = level, fraction = fraction, last = last, rate = rate,
    whole = form == 2, epoch = seen,
  }
end

-- A bucket as it was last written, or nil.
local function stored_bucket(key)
  local text = redis.call('GET', key)
  return text and bucket_of(text, key) or nil
end

-- What a bucket that held this then holds now.
local function filled_since(level, fraction, instant, terms)
  level, fraction = capped(level, fraction, terms.burst)
  return refilled(level, fraction, terms.burst, since(instant), terms.own_rate, terms.period)
end

local function least(level, fraction, other, other_fraction)
  if level < other then
    return level, fraction
  elseif other < level then
    return other, other_fraction
  end
  return level, min(fraction, other_fraction)
end

-- The least own rate before the last change, as far back as is remembered, and since.
local function slowest_own(change, terms)
  return min(terms.own_rate, shortened(max(0, change.rate - terms.lent_rate), terms.keep))
end

-- The most that was in a bucket for certain, if it was empty so long before.
local function regained(change, span, terms)
  local cap = max(0, change.burst - terms.lent_burst)
  return refilled(0, 0, cap, min(span, CHANGE_MEMORY), slowest_own(change, terms), terms.period)
end

-- The most that a bucket holds for certain that was there at the last change, partly used, and has gone since.
local function forgotten(change, terms)
  local former, level, fraction = max(0, change.burst - terms.lent_burst), 0, 0
  if change.slowed_first and since(change.slowed_first) > GRACE then
    level, fraction = regained(change, since(change.slowed_last), terms)
    level, fraction = capped(level, fraction, terms.burst)
  elseif since(change.at) <= GRACE then
    return filled_since(former, 0, change.at, terms)
  elseif slowest_own(change, terms) > 0 then
    level, fraction = refilled(former, 0, terms.burst, GRACE, terms.own_rate, terms.period)
  end
  local other, other_fraction = filled_since(0, 0, change.at, terms)
  if other > level then
    return other, other_fraction
  elseif other == level then
    return level, min(fraction, other_fraction)
  end
  return level, fraction
end

-- The most that a bucket holds for certain by the last change of limits.
local function change_ceiling(change, stored, terms)
  local level, fraction = max(0, change.burst - terms.lent_burst), 0
  if emptied_at and emptied_at <= change.at then
    level, fraction = regained(change, change.at - emptied_at, terms)
  end
  level, fraction = filled_since(level, fraction, change.at, terms)
  if stored then
    return level, fraction
  end
  return least(level, fraction, forgotten(change, terms))
end

-- The most that a bucket may hold by what happened to all of them.
local function ceiling(stored, terms, change)
  local level, fraction = terms.burst, 0
  if emptied_at then
    level, fraction = least(level, fraction, filled_since(0, 0, emptied_at, terms))
  end
  if renewed_at then
    level, fraction = least(level, fraction, filled_since(terms.own_burst, 0, renewed_at, terms))
  end
  if change then
    level, fraction = least(level, fraction, change_ceiling(change, stored, terms))
  end
  if (terms.whole and terms.lent) or (stored and stored.whole ~= terms.whole) then
    level, fraction = least(level, fraction, filled_since(terms.own_burst, 0, now, terms))
  end
  return level, fraction
end

-- A bucket as it is now: level, fraction, estimates, slow.
local function settled(stored, terms, change)
  if not stored then
    local level, fraction = ceiling(nil, terms, change)
    return {level = level, fraction = fraction, estimates = NO_ESTIMATES, slow = 0}
  end
  local elapsed, rate = since(stored.last), min(stored.rate, terms.rate)
  local bucket = {slow = max(0, stored.slow - elapsed), estimates = NO_ESTIMATES}
  if stored.epoch == epoch and stored.whole == terms.whole then
    bucket.estimates = within(aged(stored.estimates, stored.last), terms.burst)
    local room = terms.burst - bucket.estimates.total
    local level, fraction = capped(stored.level, stored.fraction, room)
    bucket.level, bucket.fraction = refilled_slowly(level, fraction, room, elapsed, stored.slow, rate, terms.period)
    return bucket
  end
  rate = min(rate, terms.own_rate)
  if change and change.at >= stored.last then
    rate = min(rate, slowest_own(change, terms))
  end
  local level, fraction = capped(stored.level, stored.fraction, min(terms.own_burst, terms.burst))
  level, fraction = refilled_slowly(level, fraction, terms.burst, elapsed, stored.slow, rate, terms.period)
  bucket.level, bucket.fraction = least(level, fraction, ceiling(stored, terms, change))
  return bucket
end

-- Puts a bucket under other terms: a smaller burst clamps at once, a greater one leaves the level.
local function put_under(bucket, terms)
  bucket.estimates = within(bucket.estimates, terms.burst)
  local room = terms.burst - bucket.estimates.total
  bucket.level, bucket.fraction = capped(bucket.level, bucket.fraction, room)
end

local function bucket_text(bucket, last, rate, whole, seen)
  local out = bucket.estimates
  if out == NO_ESTIMATES and bucket.slow == 0 then
    return pack(BYTES, whole and 2 or 1, bucket.level, bucket.fraction, last, rate, seen)
  end
  local text = string.format('%.0f %.0f %.0f %.0f %d %.0f', bucket.level, bucket.fraction, last, rate, whole and 1 or 0, seen)
  local words = {text, int(bucket.slow), out.era}
  for _, one in ipairs(out) do
    words[#words + 1] = int(one.ends / LEAST_GRAIN) .. ' ' .. int(one.sum)
  end
  return table.concat(words, ' ')
end

-- How long a bucket matters under these terms, in milliseconds.
local function bucket_life(terms)
  local life
  if terms.own_rate > 0 then
    life = fill_time(terms.utmost_burst, terms.own_rate, terms.period)
  else
    life = max(fill_time(terms.utmost_burst, terms.utmost_rate, terms.period), LIFE_WITHOUT_REFILL)
  end
  return life * 1000 + GRACE / 1000
end

-- Value and expiry in one command: no bucket is ever there without an end.
local function keep_bucket(key, bucket, terms)
  if not terms.life then
    terms.life = bucket_life(terms)
    terms.life_text = int(terms.life)
  end
  local text, life_text = bucket_text(bucket, now, terms.rate, terms.whole, epoch), terms.life_text
  if bucket.estimates ~= NO_ESTIMATES or bucket.slow > 0 then
    local life = max(terms.life, up(estimates_end_in(bucket.estimates, 0) / 1000))
    life_text = int(life + up(bucket.slow / 1000))
  end
  redis.call('SET', key, text, 'PX', life_text)
end

-- Puts the true cost in the place of an estimate, as of the last access: what is given back, and what was not
-- there to be taken, which slows the refill.
local function settle_bucket(key, estimate, cost, ticket)
  local ends, era, burst, period = string.match(ticket, '^(%d+) (%x+) (%d+) (%d+)$')
  local bucket, excess = stored_bucket(key), max(0, cost - estimate)
  if not bucket then
    return 0, excess
  end
  local known, returned = 0, 0
  if era == bucket.estimates.era then
    bucket.estimates, known = without_estimate(bucket.estimates, tonumber(ends), estimate)
    returned = max(0, known - cost)
  end
  local there = exact(bucket.level + returned)
  bucket.level = max(0, there - excess)
  local owed, slow = max(0, excess - there), bucket.slow
  local most = max(slow_for(tonumber(burst), bucket.rate, tonumber(period)), slow)
  bucket.slow = min(slow + slow_for(owed, bucket.rate, tonumber(period)), most)
  local life = max(1, redis.call('PTTL', key))
  local text = bucket_text(bucket, bucket.last, bucket.rate, bucket.whole, bucket.epoch)
  redis.call('SET', key, text, 'PX', int(life + up((bucket.slow - slow) / 1000)))
  return returned, owed
end
