-- The store's clock, in microseconds. Redis replicates what a script did, not the script, so a
-- replica never reads another time (since Redis 5).
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
