-- Records units of allowances that may be spent.
--
-- ARGV[2..3]  session and seq of the response
-- ARGV[4..]   for each: budget, the beginning of the window, units granted with the floor, the most that
--             it can have come to before the state was lost
if tonumber(ARGV[2]) ~= session or tonumber(ARGV[3]) ~= taken then
  return superseded()
end
for i = 4, #ARGV, 4 do
  local field, units, used_at_most = 'g:' .. ARGV[i] .. ':' .. ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if units == '0' and used_at_most == '0' then
    redis.call('HDEL', lease, field)
  else
    -- told once, until the window is over: what was granted since then the store counts itself, and what a report
    -- made of it must not change
    local told = string.match(redis.call('HGET', lease, field) or '', ' (%d+)$')
    if told and told ~= '0' then
      used_at_most = told
    end
    redis.call('HSET', lease, field, units .. ' ' .. used_at_most)
  end
end
return {'done'}
