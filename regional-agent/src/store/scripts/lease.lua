-- KEYS[1]  the lease record
-- ARGV[1]  the store that the caller is connected to
--
-- A record that another store wrote says nothing of this one: it counts as none (R7).
local lease = KEYS[1]
local record = redis.call('HMGET', lease, 'session', 'taken', 'applied', 'policies', 'epoch',
  'renewed_at', 'emptied_at', 'burnt', 'store', 'nonce', 'lost_at')
if not record[1] or record[9] ~= ARGV[1] then
  return {'no-record'}
end
local session, taken, applied, policies = tonumber(record[1]), tonumber(record[2]), record[3], record[4]
local epoch, burnt = tonumber(record[5]), record[8] == '1'
local renewed_at, emptied_at, lost_at = tonumber(record[6]), tonumber(record[7]), tonumber(record[11])

-- For return: this call is of another session, or of an older response than the one taken.
local function superseded()
  return {'superseded', record[1], record[2]}
end
