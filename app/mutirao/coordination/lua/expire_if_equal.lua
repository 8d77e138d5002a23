-- Prolongs a key only while it holds the caller's value.
-- KEYS[1]: string.  ARGV[1]: the value expected.  ARGV[2]: time to live, ms.
-- Returns 1 prolonged, 0 missing, -1 holds something else.
local held = redis.call('GET', KEYS[1])
if not held then
    return 0
end
if held ~= ARGV[1] then
    return -1
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
