-- Whether slots are held yet. If not, an answer that told of them is forgotten: who asks again is decided anew.
--
-- KEYS[2..3]  what was taken (see keep_charges), and the answer
-- KEYS[4..]   every key that the former names, in its order
-- ARGV[2..3]  the former as it was read (empty: it was gone), and the id of the slots
local held, i = ARGV[2] ~= '' and redis.call('GET', KEYS[2]) == ARGV[2], 3
for key, units, ticket in string.gmatch(ARGV[2], '\n(%S+) (%d+) slot ([^\n]*)') do
  i = i + 1
  if key ~= KEYS[i] then
    error('undeclared key ' .. key)
  end
  held = held and held_slot(key, ticket, tonumber(units)) ~= nil
end
if not held and string.find(redis.call('GET', KEYS[3]) or '', ARGV[3], 1, true) then
  redis.call('DEL', KEYS[3])
end
return {'held', held and '1' or '0'}
