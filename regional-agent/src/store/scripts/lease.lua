-- KEYS[1]  the lease record
--
-- A record of a store that has lost something says nothing of what was lost: it counts as none (R7).
local lease = KEYS[1]
local record = redis.call('HMGET', lease, 'session', 'taken', 'applied', 'policies', 'epoch',
  'renewed_at', 'emptied_at', 'burnt', 'store', 'nonce', 'lost_at', 'clock',
  'seq', 'evicted')
if not record[1] or has_lost(record[9], record[1], record[13], record[14]) then
  return {'no-record'}
end
local session, taken, applied, policies = tonumber(record[1]), tonumber(record[2]), record[3], record[4]
local epoch, burnt = tonumber(record[5]), record[8] == '1'
local renewed_at, emptied_at, lost_at = tonumber(record[6]), tonumber(record[7]), tonumber(record[11])
-- the store's clock counts as showing at least this
local clock = tonumber(record[12] or '0')

-- From now on it counts as showing at least `shown`: a region's window never goes back.
local function note_clock(shown)
  if shown > clock then
    clock = shown
    redis.call('HSET', lease, 'clock', string.format('%.0f', shown))
  end
end

-- True of a window that may have been used before the state was lost (R7).
local function is_burnt(label)
  return lost_at and label <= lost_at + CLOCKS_APART
end

-- For return: this call is of another session, or of an older response than the one taken.
local function superseded()
  return {'superseded', record[1], record[2]}
end
