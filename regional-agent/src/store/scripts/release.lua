-- Gives slots back.
--
-- KEYS[2]   what was taken (see keep_charges)
-- KEYS[3..] every key that it names, in its order
-- ARGV[2]   the same as it was read
if redis.call('GET', KEYS[2]) ~= ARGV[2] then
  return {'changed'}
end
local released, all, i = false, true, 2
for key, units, ticket in string.gmatch(ARGV[2], '\n(%S+) (%d+) slot ([^\n]*)') do
  i = i + 1
  if key ~= KEYS[i] then
    error('undeclared key ' .. key)
  end
  if release_slot(key, ticket, tonumber(units)) then
    released = true
  else
    all = false
  end
end
if all then
  redis.call('DEL', KEYS[2])
end
return {'released', released and '1' or '0'}
