/* The node that executes: it beats in both stores and believes only what was accepted. */

#define accepted_by_redis() worker_redis_age = 0

active proctype WorkerInRedis()
{
end:    do
        :: d_step { GOES_ON ->
                redis_front = NEWEST;
                if :: RULE_WAIT_FOR_MAJORITY -> redis_heir = NEWEST :: else fi;
                accepted_by_redis();
                squeeze_redis()
           }
        :: d_step { GOES_ON && redis_split ->
                redis_heir = NEWEST;
                accepted_by_redis();
                squeeze_redis()
           }
        od
}

/* What the node does the moment it sends a beat that says whether Redis counts, and once it is answered. */
#define sends(on) \
        if \
        :: RULE_OFF_WHEN_SENT && !on -> worker_counts_redis = false \
        :: !RULE_ON_WHEN_ACKNOWLEDGED && on -> worker_counts_redis = true \
        :: else \
        fi

#define acknowledged(on) worker_postgres_age = 0; worker_counts_redis = on

/* The reply may be lost: then the beat is in the store, and the node knows nothing of it. */
#define perhaps_acknowledged(on) if :: acknowledged(on) :: skip fi

#define beat_to_front(on) \
        d_step { GOES_ON -> sends(on); write_front(NEWEST, on); squeeze_postgres() }; \
        perhaps_acknowledged(on)

#define beat_to_heir(on) \
        d_step { GOES_ON && postgres_split -> sends(on); write_heir(NEWEST, on); squeeze_postgres() }; \
        perhaps_acknowledged(on)

/* Sent, and given up after a timeout. */
#define beat_to_nowhere_yet(on) \
        d_step { GOES_ON -> sends(on); late_beat = NEWEST; late_beat_on = on; squeeze_postgres() }

/* The real agent changes the flag after ten seconds of silence: no matter of safety, so here it may at any beat. */
active proctype WorkerInPostgreSQL()
{
end:    do
        :: atomic { beat_to_front(true) }
        :: atomic { beat_to_front(false) }
        :: atomic { beat_to_heir(true) }
        :: atomic { beat_to_heir(false) }
        :: beat_to_nowhere_yet(true)
        :: beat_to_nowhere_yet(false)
        od
}

#define gone() late_beat = MISSING; late_beat_on = false; squeeze_postgres()

/* What became of the beat the node gave up on: it is still applied by somebody, or by nobody. */
active proctype LateBeat()
{
end:    do
        :: d_step { GOES_ON && late_beat != MISSING -> gone() }
        :: d_step { GOES_ON && late_beat != MISSING ->
                write_front(late_beat, late_beat_on);
                gone()
           }
        :: d_step { GOES_ON && late_beat != MISSING && postgres_split ->
                write_heir(late_beat, late_beat_on);
                gone()
           }
        od
}
