-- Takes or keeps each job's execution lock for one attempt of one owner.
-- KEYS[i]: string "attempt:owner".  ARGV[1]: owner.  ARGV[2]: time to live, ms.  ARGV[2 + i]: attempt for KEYS[i].
-- Returns the positions (from 1) refused: where a higher attempt, or the same one of another owner, holds the lock.
-- A lower attempt, compared as numbers, is overwritten, and so is what no lock would hold.
local call, suffix, ttl = redis.call, ':' .. ARGV[1], ARGV[2]
local refused = {}
for i, key in ipairs(KEYS) do
    local attempt = ARGV[2 + i]
    local mine = attempt .. suffix
    local held = call('SET', key, mine, 'NX', 'GET', 'PX', ttl)
    if held == mine then
        call('PEXPIRE', key, ttl)
    elseif held then
        local other = tonumber(string.match(held, '^(%d+):'))
        if other and other >= tonumber(attempt) then
            refused[#refused + 1] = i
        else
            call('SET', key, mine, 'PX', ttl)
        end
    end
end
return refused
