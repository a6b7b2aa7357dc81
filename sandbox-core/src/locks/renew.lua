-- Prolongs a lease from now on.
-- KEYS: holders (member -> end of its lease in microseconds of Redis' own time)
-- ARGV: member, lease in microseconds
-- Answers 1, or 0 if the member isn't a holder any more. One whose lease has ended, but was not removed
-- by anybody who wanted the lock, is one still.
local holders, me, lease_us = KEYS[1], ARGV[1], tonumber(ARGV[2])
if not redis.call('ZSCORE', holders, me) then
  return 0
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
redis.call('ZADD', holders, now + lease_us, me)
local last = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')
redis.call('PEXPIREAT', holders, math.ceil(tonumber(last[2]) / 1000))
return 1
