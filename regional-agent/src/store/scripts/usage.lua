-- Opens the newest windows, and reads what budgets have counting or have spent, for a heartbeat.
--
-- KEYS[2..]  what each budget is counted by
-- ARGV[2..]  for each budget: how it is counted, and what that needs (see usages)
note_clock(now)

-- What a budget comes to, by how it is counted. Each is given the key, what the record knows of the last
-- change of its policy, and the place of its arguments; it gives a number as text and the place after its
-- arguments, or no number if the clock shows another window than the arguments are for.
local usages = {log = log_usage, sliding = sliding_usage, slots = slots_usage, window = window_usage}

local reply, a = {'done', int(clock), lost_at and int(lost_at) or '-'}, 2
for i = 2, #KEYS do
  local changed = redis.call('HGET', lease, 'c:' .. string.match(KEYS[i], ':bucket:(.*):'))
  local text
  text, a = usages[ARGV[a]](KEYS[i], changed, a + 1)
  if not text then
    return {'other-window', int(clock)}
  end
  reply[#reply + 1] = text
end
return reply
