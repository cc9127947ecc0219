-- The token buckets of many questions: read at once, decided here, written once at the end.

-- What is held of each key's budget, as recorded.
local holdings = {}

-- For each key what it was read as, then the bucket as the questions so far have left it; false: there is none.
local texts, buckets = {}, {}
-- Keys of those that have changed.
local changed_buckets = {}

-- Reads all of them.
local function read_buckets(keys)
  if #keys == 0 then
    return
  end
  local found, absent = redis.call('MGET', unpack(keys)), {}
  for i, key in ipairs(keys) do
    texts[key] = found[i]
    if not found[i] then
      absent[#absent + 1] = key
    end
  end
  -- MGET takes what is no string for nothing: that is an error first when it is asked for alone
  if #absent > 0 and redis.call('EXISTS', unpack(absent)) > 0 then
    for _, key in ipairs(absent) do
      texts[key] = nil
    end
  end
end

-- A bucket as it was written last, in the store or by a question before; or false.
local function bucket_at(key)
  local bucket = buckets[key]
  if bucket == nil then
    local text = texts[key]
    if text == nil then
      text = redis.call('GET', key)
    end
    bucket = text and bucket_of(text, key)
    buckets[key] = bucket
  end
  return bucket
end

-- Writes a bucket down as of now.
local function note_bucket(key, level, fraction, estimates, slow, terms)
  local bucket = buckets[key]
  if not bucket then
    bucket = {}
    buckets[key] = bucket
  end
  if not bucket.terms then
    changed_buckets[#changed_buckets + 1] = key
  end
  bucket.level, bucket.fraction, bucket.last, bucket.rate = level, fraction, now, terms.rate
  bucket.estimates, bucket.slow, bucket.whole, bucket.epoch, bucket.terms = estimates, slow, terms.whole, epoch, terms
end

local function write_buckets()
  for _, key in ipairs(changed_buckets) do
    local bucket = buckets[key]
    keep_bucket(key, bucket, bucket.terms)
  end
end

-- What the region may use of a budget by one view. `way` is how it is counted (see decide.lua); the same for all that
-- hold the same of it, mostly nothing.
local function bucket_terms(way, view, holding)
  local by_holding = way[view]
  if not by_holding then
    if not way.floor then
      local rate, burst, lendable_rate, lendable_burst, period = unpack_bytes('>I7I7I7I7I5', ARGV[way.at])
      way.floor = {rate = rate, burst = burst, lendable_rate = lendable_rate, lendable_burst = lendable_burst, period = period}
    end
    by_holding = {}
    way[view] = by_holding
  end
  local terms = by_holding[holding or '']
  if not terms then
    terms = terms_of(holding_of(holding, way.floor), way.floor, view)
    terms.answer = pack('>I7I7I7B', terms.full_rate, terms.burst, terms.rate, terms.leased and 1 or 0)
    by_holding[holding or ''] = terms
  end
  return terms
end

-- How much there is now in a bucket without estimates and debts.
local function level_of(bucket, terms, change)
  if bucket and bucket.epoch == epoch and bucket.whole == terms.whole then
    local level, fraction = capped(bucket.level, bucket.fraction, terms.burst)
    return refilled(level, fraction, terms.burst, since(bucket.last), min(bucket.rate, terms.rate), terms.period)
  end
  local as_of_now = settled(bucket, terms, change)
  return as_of_now.level, as_of_now.fraction
end

-- Decides a question of which all charges are on buckets, and charges it if it is allowed. Answers in bytes: A or R
-- (allowed, refused), then for each charge the terms, whether it fits, level and fraction. Nothing if there is more to
-- say, of estimates and debts; nothing is charged then.
local charged, levels, fractions = {}, {}, {}
local function decide_buckets(question)
  local view, first, allowed = question.view, question.key - 1, true
  for i = 1, question.charges do
    local key, way = KEYS[first + i], question[2 * i - 1]
    local bucket = bucket_at(key)
    if bucket and (bucket.slow > 0 or bucket.estimates ~= NO_ESTIMATES) then
      return nil
    end
    local terms = bucket_terms(way, view, holdings[key])
    charged[i] = terms
    levels[i], fractions[i] = level_of(bucket, terms, way.change)
    allowed = allowed and (levels[i] >= question[2 * i] or not way.enforced)
  end
  local answer = allowed and 'A' or 'R'
  for i = 1, question.charges do
    local cost, level, fraction, terms = question[2 * i], levels[i], fractions[i], charged[i]
    local fits = level >= cost
    if cost > 0 then
      if allowed and fits then
        level = level - cost
      end
      note_bucket(KEYS[first + i], level, fraction, NO_ESTIMATES, 0, terms)
    end
    answer = answer .. terms.answer .. pack('>BI7I5', fits and 1 or 0, level, fraction)
  end
  return answer
end

-- A charge on a bucket of a question that has others, or keeps something beside.
local function bucket_account(key, way, cost, view)
  local terms = bucket_terms(way, view, holdings[key])
  local bucket = settled(bucket_at(key) or nil, terms, way.change)
  local account = {fits = bucket.level >= cost, leased = terms.leased}
  function account.take()
    bucket.level = bucket.level - cost
  end
  function account.keep()
    note_bucket(key, bucket.level, bucket.fraction, bucket.estimates, bucket.slow, terms)
  end
  -- What was taken is an estimate, to be settled by this hold. What that needs to know.
  function account.reserve(hold)
    local ends = estimate_end(hold.life * 1000)
    bucket.estimates = with_estimate(bucket.estimates, hold.id, ends, cost)
    return string.format('bucket %.0f %s %.0f %.0f', ends, bucket.estimates.era, terms.burst, terms.period)
  end
  function account.answer()
    local out, more = bucket.estimates, '-'
    if out ~= NO_ESTIMATES or bucket.slow > 0 then
      local room_in = estimates_end_in(out, max(0, terms.burst - cost))
      more = string.format('%.0f %.0f %.0f %.0f', out.total, room_in, bucket.slow, estimates_end_in(out, 0))
    end
    return {
      account.fits and '1' or '0', int(terms.full_rate), int(terms.burst), int(terms.rate),
      int(bucket.level), int(bucket.fraction), terms.leased and '1' or '0', more,
    }
  end
  return account
end
