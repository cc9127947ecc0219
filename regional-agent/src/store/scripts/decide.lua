-- Decides questions, one after the other, each as if it was alone: it is charged if it is allowed, all or nothing over its
-- enforced charges. What they have in common is read once.
--
-- KEYS[2..]  for each question what its charges are counted by, and what is kept beside (see keep.lua)
-- ARGV[2]    how many views, ways of counting and questions there are
-- ARGV[3..]  for each view: leased, whole floor, session with nonce and seq of the response that dates them, policies,
--            10^6 less the drift, the lenders whose promise stands
--            for each way: policy and generation, whether it is enforced, how many words follow; how it is counted, and
--            what that needs (see kinds)
--            for each question: its view, how many keys it has beside, how many charges, and for each its way and its
--            cost; then, if it has keys beside, seven words (see keep.lua)
local view_count, way_count, question_count = unpack_bytes('>I2I2I2', ARGV[2])
local a = 3

-- Why nothing is decided by a view, if so.
local function refusal(view, number, seq, its_policies)
  if its_policies ~= policies then
    return {'other-policies', policies}
  elseif view.leased or view.whole then
    local newest = applied and string.match(applied, '^%d+') or '0'
    if number ~= record[1] .. ':' .. record[10] or tonumber(seq) < tonumber(newest) then
      return {'other-lease', record[1], newest}
    end
  end
end

local views = {}
for i = 1, view_count do
  local view = {leased = ARGV[a] == '1', whole = ARGV[a + 1] == '1', keep = tonumber(ARGV[a + 5]), standing = ARGV[a + 6]}
  view.refusal = refusal(view, ARGV[a + 2], ARGV[a + 3], ARGV[a + 4])
  views[i] = view
  a = a + 7
end

-- What to read of the record: the last change of each policy, then what is held of each budget.
local ways, fields = {}, {}
for i = 1, way_count do
  local way = {enforced = ARGV[a + 1] == '1', kind = ARGV[a + 3], at = a + 4}
  way.is_bucket = way.kind == 'bucket'
  ways[i], fields[i] = way, 'c:' .. ARGV[a]
  a = a + 3 + tonumber(ARGV[a + 2])
end

local questions, held_by, bucket_keys = {}, {}, {}
local bucket_name = #lease + 3 -- where the budget begins in quorate:{region}:bucket:BUDGET
local function expect(key, way)
  if holdings[key] == nil then
    holdings[key] = false
    held_by[#held_by + 1] = key
    fields[#fields + 1] = 'b:' .. string.sub(key, bucket_name)
    if way.is_bucket then
      bucket_keys[#bucket_keys + 1] = key
    end
  end
end

local key = 2
for i = 1, question_count do
  local text = ARGV[a]
  local view, more, charges, place = unpack_bytes('>I2BB', text)
  local question = {view = views[view], key = key, charges = charges, more = more, beside = a + 1, only_buckets = more == 0}
  for charge = 1, charges do
    local way, cost
    way, cost, place = unpack_bytes('>I2I7', text, place)
    question[2 * charge - 1], question[2 * charge] = ways[way], cost
    question.only_buckets = question.only_buckets and ways[way].is_bucket
    if not question.view.refusal then
      expect(KEYS[key + charge - 1], ways[way])
    end
  end
  questions[i] = question
  key = key + charges + more
  a = a + (more > 0 and 8 or 1)
end

local known = redis.call('HMGET', lease, unpack(fields))
for i, way in ipairs(ways) do
  way.changed, way.change = known[i], change_of(known[i])
end
for i, key in ipairs(held_by) do
  holdings[key] = known[way_count + i]
end
read_buckets(bucket_keys)

-- A charge of which the floor has ended by itself: nothing may be used, and nothing is looked at.
local function ended_account(_, _, cost)
  local account = {fits = cost == 0, take = function() end, keep = function() end}
  function account.answer()
    return {account.fits and '1' or '0'}
  end
  return account
end

-- How a budget stands before anything is taken, by how it is counted. Each is given the key, the way, the cost and the
-- view; it gives an account, or none if the clock shows another window than the way is for. An account says whether the
-- cost fits and whether that rests on a lease, takes it, makes it an estimate of a hold, keeps what is to be kept
-- (whether it was taken or not), and answers.
kinds.ended, kinds.bucket = ended_account, bucket_account

-- What is kept beside a question that has nothing beside.
local NOTHING = {}

-- True from where on an error leaves a question half done.
local charging = false

local function decide(question)
  local view, beside = question.view, question.more > 0 and beside_of(question) or NOTHING
  view.slot = beside.slot and beside.slot.id or NO_ESTIMATES.era
  if beside.attempt then
    local answer = repeated(view, beside.attempt, beside.floors)
    if answer then
      return answer
    end
  end
  local accounts, allowed = {}, true
  for i = 1, question.charges do
    local key, way, cost = KEYS[question.key + i - 1], question[2 * i - 1], question[2 * i]
    local account = kinds[way.kind](key, way, cost, view)
    if not account then
      return {'other-window', int(max(now, clock))}
    end
    account.cost, account.key = cost, key
    accounts[i] = account
    allowed = allowed and (account.fits or not way.enforced)
  end
  charging = true
  local reply = {'decided', allowed and '1' or '0'}
  for _, account in ipairs(accounts) do
    if account.cost > 0 then
      local taken = allowed and account.fits
      if taken then
        account.take()
        if account.reserve and (beside.hold or account.slot) then
          account.ticket = account.reserve(beside.hold)
        end
      end
      account.keep(taken)
    end
    for _, word in ipairs(account.answer()) do
      reply[#reply + 1] = word
    end
  end
  if allowed and question.more > 0 then
    keep_beside(beside, accounts)
  end
  if beside.attempt then
    reply[#reply + 1] = remember(beside, accounts, reply)
  end
  return reply
end

local function answer(question)
  return question.view.refusal or (question.only_buckets and decide_buckets(question)) or decide(question)
end

-- First what every answer shows of the lease (R8), then the answers.
local answers = {'@' .. record[1] .. ' ' .. record[13] .. ' ' .. (applied and string.match(applied, '^%d+') or '0') .. ' ' .. record[10]}
for i, question in ipairs(questions) do
  local done, said = pcall(answer, question)
  if not done then
    if charging then
      error(said)
    end
    -- what cannot be read is the trouble of who asked for it
    said = {'failed', type(said) == 'table' and said.err or tostring(said)}
  end
  charging = false
  answers[i + 1] = said
end
write_buckets()
return answers
