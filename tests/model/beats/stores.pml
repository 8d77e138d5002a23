/*
 * The two stores: one primary each (the front), and the replica that is promoted when it is lost (the heir).
 * A front that was cut off and accepts nothing is no different from one that nobody happens to reach, and a
 * promotion ends it. Only without the majority rule does an old front live on beside its heir: a split.
 */

#define promote_redis() \
        redis_front = redis_heir; \
        redis_split = false; \
        redis_known = (redis_known == HEIR -> FRONT : NEITHER); \
        squeeze_redis()

active proctype Redis()
{
end:    do
        :: d_step { GOES_ON && (RULE_WAIT_FOR_MAJORITY || redis_split) -> promote_redis() }
        :: d_step { GOES_ON && !RULE_WAIT_FOR_MAJORITY && !redis_split -> redis_split = true }
        :: d_step { GOES_ON && !redis_split && redis_heir != redis_front ->     /* replication catches up */
                redis_heir = redis_front;
                squeeze_redis()
           }
        :: d_step { GOES_ON && redis_front != MISSING ->        /* flushed, or restarted empty */
                redis_front = MISSING;
                squeeze_redis()
           }
        :: d_step { GOES_ON && redis_heir != MISSING ->
                redis_heir = MISSING;
                squeeze_redis()
           }
        od
}

#define promote_postgres() \
        postgres_front = postgres_heir; \
        postgres_front_on = postgres_heir_on; \
        postgres_split = false; \
        squeeze_postgres()

active proctype PostgreSQL()
{
end:    do
        :: d_step { GOES_ON && (RULE_SYNCHRONOUS_BEAT || postgres_split) -> promote_postgres() }
        :: d_step { GOES_ON && !RULE_SYNCHRONOUS_BEAT && !postgres_split -> postgres_split = true }
        :: d_step { GOES_ON && !postgres_split && postgres_heir != postgres_front ->
                postgres_heir = postgres_front;
                postgres_heir_on = postgres_front_on;
                squeeze_postgres()
           }
        od
}

/* One row, one update: the beat's counter and flag, if the WHERE clause finds the row. */
#define write_front(counter, on) \
        if \
        :: !RULE_FORWARD_ONLY || postgres_front < (counter) -> \
                postgres_front = counter; \
                postgres_front_on = on; \
                if \
                :: RULE_SYNCHRONOUS_BEAT -> postgres_heir = counter; postgres_heir_on = on \
                :: else \
                fi \
        :: else \
        fi

#define write_heir(counter, on) \
        if \
        :: !RULE_FORWARD_ONLY || postgres_heir < (counter) -> \
                postgres_heir = counter; \
                postgres_heir_on = on \
        :: else \
        fi
