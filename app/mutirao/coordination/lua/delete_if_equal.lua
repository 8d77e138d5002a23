-- Deletes each key only where it holds the caller's value.
-- KEYS[i]: string.  ARGV[i]: the value expected at KEYS[i].
-- Returns the positions (from 1) that were left alone: missing, or holding something else.
local call = redis.call
local left = {}
for i, key in ipairs(KEYS) do
    if call('GET', key) == ARGV[i] then
        call('DEL', key)
    else
        left[#left + 1] = i
    end
end
return left
