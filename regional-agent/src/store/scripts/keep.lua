-- What is kept beside the charges of a question: a hold, by which they are settled later, and the answer, for a retry.
--
-- A question that has keys beside those of its charges also has seven words: whether a floor of the charges ends by
-- itself, or has ended ('ended'), the id, the life and the greatest true cost of the hold ('-': none), the id of slots
-- ('-': none), and the hashes of what the attempt asks ('-': none) and of its charges.
local function beside_of(question)
  local a, key = question.beside, question.key + question.charges
  local beside = {floors = ARGV[a]}
  if ARGV[a + 1] ~= '-' then
    beside.hold = {id = ARGV[a + 1], life = tonumber(ARGV[a + 2]), most = ARGV[a + 3], key = KEYS[key]}
    key = key + 1
  end
  if ARGV[a + 4] ~= '-' then
    beside.slot = {id = ARGV[a + 4], key = KEYS[key]}
    key = key + 1
  end
  if ARGV[a + 5] ~= '-' then
    beside.attempt = {content = ARGV[a + 5], charges = ARGV[a + 6], key = KEYS[key], tally = KEYS[key + 1]}
  end
  return beside
end

-- The answer of an earlier attempt, or nil. What rested on a lease is repeated only under that lease: an answer that
-- came after its end counted for nothing, and nobody here knows whether it did.
local function repeated(view, attempt, floors)
  local text = redis.call('GET', attempt.key)
  if not text then
    return nil
  end
  local words = {}
  for word in string.gmatch(text, '([^\n]*)\n') do
    words[#words + 1] = word
  end
  if words[1] ~= attempt.content then
    return {'other-content'}
  end
  local since_lapse = words[4] == (record[6] or '-')
  if words[3] == '1' and not (view.leased and since_lapse) then
    return nil
  end
  -- a floor that ends by itself outlasts the lease: while it holds it has not ended since, unless the lease has come back
  if words[3] == 'floor' and not (floors ~= 'ended' and since_lapse) then
    return nil
  end
  local answer = {'repeated', words[2] == attempt.charges and '1' or '0'}
  for i = 5, #words do
    answer[#answer + 1] = words[i]
  end
  return answer
end

-- Keeps an answer for the next attempt, unless there are as many as may be. The number of those kept in this minute and
-- in the one before is at least that of those that are there.
local function remember(beside, accounts, reply)
  local attempt, hold, slot, floors = beside.attempt, beside.hold, beside.slot, beside.floors
  local minute = down(now / 60000000)
  local of, count, before = string.match(redis.call('GET', attempt.tally) or '0 0 0', '^(%d+) (%d+) (%d+)$')
  of, count, before = tonumber(of), tonumber(count), tonumber(before)
  if of ~= minute then
    count, before = 0, of == minute - 1 and count or 0
  end
  if count + before >= MOST_ATTEMPTS then
    return '0'
  end
  local leased = false
  for _, account in ipairs(accounts) do
    leased = leased or account.leased
  end
  local allowed, rests_on = reply[2] == '1', '0'
  if allowed and leased then
    rests_on = '1'
  elseif allowed and floors == '1' then
    rests_on = 'floor'
  end
  local words = {
    attempt.content, attempt.charges, rests_on, record[6] or '-',
    hold and allowed and hold.id or '-', slot and slot.life and slot.id or '-',
  }
  for i = 2, #reply do
    words[#words + 1] = reply[i]
  end
  redis.call('SET', attempt.key, table.concat(words, '\n') .. '\n', 'PX', ATTEMPT_LIFE_MS)
  redis.call('SET', attempt.tally, int(minute) .. ' ' .. int(count + 1) .. ' ' .. int(before), 'PX', '120000')
  return '1'
end

-- Keeps what was charged: when the state was last lost, what more is to be known of it, and for each budget its key, the
-- estimate and a ticket.
local function keep_charges(key, life, accounts, which, more)
  local lines = {(record[11] or '-') .. (more or '')}
  for _, account in ipairs(accounts) do
    if account.ticket and which(account) then
      lines[#lines + 1] = account.key .. ' ' .. int(account.cost) .. ' ' .. account.ticket
    end
  end
  redis.call('SET', key, table.concat(lines, '\n'), 'PX', life)
end

-- Keeps the hold, and the slots that were taken for as long as they last.
local function keep_beside(beside, accounts)
  local hold, slot = beside.hold, beside.slot
  for _, account in ipairs(accounts) do
    if slot and account.slot and account.ticket then
      slot.life = max(slot.life or 0, account.slot)
    end
  end
  if slot and slot.life then
    keep_charges(slot.key, int(share_life(slot.life)), accounts, function(account) return account.slot end)
  end
  if hold then
    keep_charges(hold.key, int(hold.life), accounts, function() return true end, ' ' .. hold.most)
  end
end
