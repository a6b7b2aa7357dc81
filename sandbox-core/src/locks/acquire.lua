-- Takes a lock, or a place in its queue.
-- KEYS: holders (member -> end of its lease), queue (member -> ticket), writers of the queue
--   (member -> ticket), places (member -> until when its place is kept), last token
-- ARGV: member ("r:…" reads, "w:…" writes), lease in microseconds, for how many microseconds a place
--   is kept, or 0 to take none
-- Answers {1, token}, or {0, how many are before it in the queue}.
-- All times are Redis' own, in microseconds; a double holds them exactly until the year 2255.
local holders, queue, writers, places, last_token = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local me, lease_us, kept_us = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local function writes(member)
  return string.sub(member, 1, 1) == 'w'
end

local function leave_queue(member)
  redis.call('ZREM', queue, member)
  redis.call('ZREM', writers, member)
  redis.call('ZREM', places, member)
end

-- What nobody renews goes by itself.
redis.call('ZREMRANGEBYSCORE', holders, '-inf', now)
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', places, '-inf', now)) do
  leave_queue(gone)
end

local ticket = redis.call('ZSCORE', queue, me)

local function is_my_turn()
  -- There are readers, or one writer.
  local holder = redis.call('ZRANGE', holders, 0, 0)[1]
  if holder and (writes(me) or writes(holder)) then
    return false
  end
  if writes(me) then
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    return not first or first == me
  end
  local writer = redis.call('ZRANGE', writers, 0, 0, 'WITHSCORES')
  if not writer[1] then
    return true
  end
  return ticket and tonumber(ticket) < tonumber(writer[2])
end

-- The answer to an earlier call of the same holder may have been lost.
if redis.call('ZSCORE', holders, me) or is_my_turn() then
  leave_queue(me)
  redis.call('ZADD', holders, now + lease_us, me)
  local last = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')
  redis.call('PEXPIREAT', holders, math.ceil(tonumber(last[2]) / 1000))
  -- If Redis has lost the last one, the time is still larger than it was.
  local token = math.max(now, tonumber(redis.call('GET', last_token) or '0') + 1)
  redis.call('SET', last_token, string.format('%.0f', token))
  return {1, token}
end

if kept_us > 0 then
  if not ticket then
    -- Larger than the last one's, whatever the clock did meanwhile.
    local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')
    ticket = math.max(now, tonumber(last[2] or '0') + 1)
    redis.call('ZADD', queue, ticket, me)
    if writes(me) then
      redis.call('ZADD', writers, ticket, me)
    end
  end
  redis.call('ZADD', places, now + kept_us, me)
  local last = redis.call('ZRANGE', places, -1, -1, 'WITHSCORES')
  local gone_ms = math.ceil(tonumber(last[2]) / 1000)
  redis.call('PEXPIREAT', places, gone_ms)
  redis.call('PEXPIREAT', queue, gone_ms)
  redis.call('PEXPIREAT', writers, gone_ms)
end
return {0, redis.call('ZRANK', queue, me) or redis.call('ZCARD', queue)}
