-- Decides a question, and charges it if it is allowed: all or nothing over the enforced charges.
--
-- KEYS[2..]   what each charge is counted by, and what is kept beside (see keep.lua)
-- ARGV[2..8]  leased, whole floor, session with nonce and seq of the response that dates them, policies,
--             10^6 less the drift, the lenders whose promise stands
-- ARGV[9..]   for each charge: cost, enforced, how it is counted, and what that needs (see kinds);
--             then what is to be kept beside
local view = {leased = ARGV[2] == '1', whole = ARGV[3] == '1', keep = tonumber(ARGV[7]), standing = ARGV[8]}
if ARGV[6] ~= policies then
  return showing({'other-policies', policies})
end
if view.leased or view.whole then
  local newest = applied and string.match(applied, '^%d+') or '0'
  if ARGV[4] ~= record[1] .. ':' .. record[10] or tonumber(ARGV[5]) < tonumber(newest) then
    return showing({'other-lease', record[1], newest})
  end
end

view.slot = slot and slot.id or NO_ESTIMATES.era
if attempt then
  local answer = repeated(view)
  if answer then
    return showing(answer)
  end
end

local fields = {}
for i = 2, charges + 1 do
  local budget = string.match(KEYS[i], ':bucket:(.*)$')
  fields[#fields + 1] = 'b:' .. budget
  fields[#fields + 1] = 'c:' .. string.match(budget, '^(.*):')
end
local known = redis.call('HMGET', lease, unpack(fields))

-- A charge of which the floor has ended by itself: nothing may be used, and nothing is looked at.
local function ended_account(_, _, _, cost, a)
  local account = {fits = cost == 0, take = function() end, keep = function() end}
  function account.answer()
    return {account.fits and '1' or '0'}
  end
  return account, a
end

-- How a budget stands before anything is taken, by how it is counted. Each is given the key, what the
-- record knows of the budget's holding and of its policy's last change, the cost, the place of its
-- arguments, and the view; it gives an account and the place after its arguments, or no account if the
-- clock shows another window than the arguments are for. An account says whether the cost fits and whether
-- that rests on a lease, takes it, makes it an estimate of a hold, keeps what is to be kept (whether it was
-- taken or not), and answers.
local kinds = {ended = ended_account, bucket = bucket_account, log = log_account, sliding = sliding_account, slots = slots_account, window = window_account}

local accounts, allowed, a = {}, true, 9
for i = 1, charges do
  local cost, enforced, account = tonumber(ARGV[a]), ARGV[a + 1] == '1', nil
  account, a = kinds[ARGV[a + 2]](KEYS[i + 1], known[2 * i - 1], known[2 * i], cost, a + 3, view)
  if not account then
    return showing({'other-window', int(math.max(now, clock))})
  end
  account.cost = cost
  accounts[i] = account
  allowed = allowed and (account.fits or not enforced)
end

local reply = {'decided', allowed and '1' or '0'}
for _, account in ipairs(accounts) do
  if account.cost > 0 then
    local taken = allowed and account.fits
    if taken then
      account.take()
      if account.reserve and (hold or account.slot) then
        account.ticket = account.reserve(hold)
      end
    end
    account.keep(taken)
  end
  for _, word in ipairs(account.answer()) do
    reply[#reply + 1] = word
  end
end
if allowed then
  keep_beside(accounts)
end
if attempt then
  reply[#reply + 1] = remember(accounts, reply)
end
return showing(reply)
