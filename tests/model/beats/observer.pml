/*
 * The coordinator's eyes. It reads in the round trip of its own beat, so a read counts only where that beat was
 * accepted. Any agent may come into office; one observer that reads as it pleases stands for all of them.
 */

#define ENOUGH (LEASE + GUARD)

/* Nothing observed so far counts: the next accepted read begins anew. */
#define void_redis_window() \
        if \
        :: RULE_WINDOW_RESTARTS -> \
                redis_known = NEITHER; \
                if :: RULE_UP_TO_LAST_READ -> redis_still = 0 :: else fi \
        :: else \
        fi

#define note_redis_silence() \
        redis_silent = redis_still >= ENOUGH && (!RULE_COMMON_WINDOW || postgres_still >= ENOUGH)

#define read_redis(server, counter) \
        if :: RULE_WINDOW_RESTARTS && redis_known != server -> redis_still = 0 :: else fi; \
        if \
        :: counter == MISSING && !RULE_MISSING_PROVES_NOTHING \
        :: counter == MISSING && RULE_MISSING_PROVES_NOTHING -> redis_seen = MISSING; redis_still = 0 \
        :: counter != MISSING && counter != redis_seen -> redis_seen = counter; redis_still = 0 \
        :: else \
        fi; \
        redis_known = server; \
        redis_unread = 0; \
        note_redis_silence(); \
        squeeze_redis()

active proctype ObserverInRedis()
{
end:    do
        :: d_step { GOES_ON -> read_redis(FRONT, redis_front) }
        :: d_step { GOES_ON && redis_split -> read_redis(HEIR, redis_heir) }
        od
}

/* Where a key is missing, any agent leaves a value of its own, used once: only what is there can be seen to rest. */
active proctype Placeholder()
{
end:    do
        :: d_step { GOES_ON && redis_front == MISSING ->
                redis_front = NEWEST;
                if :: RULE_WAIT_FOR_MAJORITY -> redis_heir = NEWEST :: else fi;
                squeeze_redis()
           }
        :: d_step { GOES_ON && redis_split && redis_heir == MISSING -> redis_heir = NEWEST; squeeze_redis() }
        od
}

#define SILENT_IN_REDIS (RULE_UP_TO_LAST_READ -> redis_silent : redis_still >= ENOUGH)

/*
 * Lost. The verdict holds for this incarnation for good, since a fence is never lifted: when it is committed, and
 * by whom, makes no difference to safety, as long as the incarnation is compared.
 */
#define LOST_TO_ALL (postgres_still >= OUTAGE + GUARD)
#define LOST_TO_POSTGRES(on) (postgres_still >= ENOUGH && !(on))
#define LOST_TO_BOTH(on) (postgres_still >= ENOUGH && on && SILENT_IN_REDIS)
#define LOST(on) (LOST_TO_ALL || LOST_TO_POSTGRES(on) || LOST_TO_BOTH(on))

/* The property; or, to show that it is no empty one, the claim that nobody is ever lost for this reason. */
#ifndef WITNESS
#define judge(on) assert(!(LOST(on) && EXECUTES))
#elif WITNESS == 1
#define judge(on) assert(!LOST_TO_ALL)
#elif WITNESS == 2
#define judge(on) assert(LOST_TO_ALL || !LOST_TO_POSTGRES(on))
#else
#define judge(on) assert(LOST_TO_ALL || !LOST_TO_BOTH(on))
#endif

#define read_postgres(counter, on) \
        if \
        :: counter != postgres_seen -> \
                postgres_seen = counter; \
                postgres_still = 0; \
                if :: RULE_COMMON_WINDOW -> redis_silent = false :: else fi \
        :: else \
        fi; \
        squeeze_postgres(); \
        judge(on)

active proctype ObserverInPostgreSQL()
{
end:    do
        :: d_step { GOES_ON -> read_postgres(postgres_front, postgres_front_on) }
        :: d_step { GOES_ON && postgres_split -> read_postgres(postgres_heir, postgres_heir_on) }
        od
}
