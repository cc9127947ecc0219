-- Gives slots back.
--
-- KEYS[2]   what was taken (see keep_charges)
-- KEYS[3..] every key that it names, in its order
-- ARGV[2]   the same as it was read
if redis.call('GET', KEYS[2]) ~= ARGV[2] then
  return {'changed'}
end
local released, i = false, 2
for key, units, ticket in string.gmatch(ARGV[2], '\n(%S+) (%d+) slot ([^\n]*)') do
  i = i + 1
  if key ~= KEYS[i] then
    error('undeclared key ' .. key)
  end
  released = release_slot(key, ticket, tonumber(units)) or released
end
redis.call('DEL', KEYS[2])
return {'released', released and '1' or '0'}
