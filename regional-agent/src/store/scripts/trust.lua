-- ARGV[1]  what the caller knows: the store that it is connected to, the session and seq of the greatest number
--          of a heartbeat that it saw drawn there, and whether this store may evict keys
local store, mark_session, mark_seq, evicts = string.match(ARGV[1], '^(%S+) (%d+) (%d+) ([01])$')

-- How many keys this store has evicted, if it may.
local function evictions()
  return evicts == '1' and string.match(redis.call('INFO', 'stats'), 'evicted_keys:(%d+)') or nil
end

-- True if a record with this store, session, seq and evictions cannot vouch for all that was counted since: another
-- store wrote it, a number that was drawn is not in it, or keys were evicted.
local function has_lost(its_store, session, seq, evicted)
  if its_store ~= store then
    return true
  end
  local behind = tonumber(mark_session) - tonumber(session)
  if behind > 0 or (behind == 0 and tonumber(seq) < tonumber(mark_seq)) then
    return true
  end
  return evicts == '1' and evictions() ~= evicted
end
