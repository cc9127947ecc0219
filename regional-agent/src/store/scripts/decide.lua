-- Decides a question, and charges it if it is allowed: all or nothing over the enforced charges.
--
-- KEYS[2..]   the bucket of each charge
-- ARGV[2..8]  leased, whole floor, session with nonce and seq of the response that dates them, policies,
--             10^6 less the drift, the lenders whose promise stands
-- ARGV[9..]   for each charge: floor (rate, burst), lendable (rate, burst), period, cost, enforced
local view = {leased = ARGV[2] == '1', whole = ARGV[3] == '1', keep = tonumber(ARGV[7]), standing = ARGV[8]}
if ARGV[6] ~= policies then
  return {'other-policies', policies}
end
if view.leased or view.whole then
  local newest = applied and string.match(applied, '^%d+') or '0'
  if ARGV[4] ~= record[1] .. ':' .. record[10] or tonumber(ARGV[5]) < tonumber(newest) then
    return {'other-lease', record[1], newest}
  end
end

local fields = {}
for i = 2, #KEYS do
  local budget = string.match(KEYS[i], ':bucket:(.*)$')
  fields[#fields + 1] = 'b:' .. budget
  fields[#fields + 1] = 'c:' .. string.match(budget, '^(.*):')
end
local known = redis.call('HMGET', lease, unpack(fields))

local charges, allowed = {}, true
for i = 1, #KEYS - 1 do
  local a = 9 + (i - 1) * 7
  local floor = {
    rate = tonumber(ARGV[a]), burst = tonumber(ARGV[a + 1]),
    lendable_rate = tonumber(ARGV[a + 2]), lendable_burst = tonumber(ARGV[a + 3]), period = tonumber(ARGV[a + 4]),
  }
  local cost, enforced = tonumber(ARGV[a + 5]), ARGV[a + 6] == '1'
  local terms = terms_of(holding_of(known[2 * i - 1], floor), floor, view)
  local level, fraction = settled(stored_bucket(KEYS[i + 1]), terms, change_of(known[2 * i]))
  local fits = level >= cost
  charges[i] = {cost = cost, terms = terms, level = level, fraction = fraction, fits = fits}
  allowed = allowed and (fits or not enforced)
end

local reply = {'decided', allowed and '1' or '0'}
for i, charge in ipairs(charges) do
  local terms = charge.terms
  if charge.cost > 0 then
    if allowed and charge.fits then
      charge.level = charge.level - charge.cost
    end
    keep_bucket(KEYS[i + 1], charge.level, charge.fraction, terms)
  end
  for _, answer in ipairs({
    charge.fits and '1' or '0', int(terms.full_rate), int(terms.burst), int(terms.rate),
    int(charge.level), int(charge.fraction), terms.leased and '1' or '0',
  }) do
    reply[#reply + 1] = answer
  end
end
return reply
