-- Deletes each key only where it holds the caller's value.
-- KEYS[i]: string.  ARGV[i]: the value expected at KEYS[i].
-- Returns for each key 1 deleted, 0 missing or holding something else.
local deleted = {}
for i, key in ipairs(KEYS) do
    if redis.call('GET', key) == ARGV[i] then
        deleted[i] = redis.call('DEL', key)
    else
        deleted[i] = 0
    end
end
return deleted
