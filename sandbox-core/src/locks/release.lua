-- Gives a lock back, or a place in its queue.
-- KEYS: holders, queue, writers of the queue, places
-- ARGV: member
-- Answers 1 if the member was a holder, else 0.
local was_held = redis.call('ZREM', KEYS[1], ARGV[1])
for place = 2, 4 do
  redis.call('ZREM', KEYS[place], ARGV[1])
end
return was_held
