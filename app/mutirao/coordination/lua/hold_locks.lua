-- Takes or keeps each job's execution lock for one attempt of one owner.
-- KEYS[i]: string "attempt:owner".  ARGV[1]: owner.  ARGV[2]: time to live, ms.  ARGV[2 + i]: attempt for KEYS[i].
-- Returns for each key 1 held, 0 refused: a higher attempt, or the same attempt of another owner, holds it.
-- A lower attempt, compared as numbers, is overwritten, and so is what no lock would hold.
local owner, ttl = ARGV[1], ARGV[2]
local answers = {}
for i, key in ipairs(KEYS) do
    local attempt = ARGV[2 + i]
    local mine = attempt .. ':' .. owner
    local held = redis.call('GET', key)
    local other = held and held ~= mine and tonumber(string.match(held, '^(%d+):'))
    if other and other >= tonumber(attempt) then
        answers[i] = 0
    else
        redis.call('SET', key, mine, 'PX', ttl)
        answers[i] = 1
    end
end
return answers
