/*
 * Beats, the self-fence and the declaration of a lost node (DESIGN section 5).
 *
 * One node executes a job for as long as its own reckoning allows; one observer decides that the node is lost
 * and gives the job to another. The property (I2): nobody is declared lost while it still executes.
 *
 * Nothing here is obliged to happen. Beats are sent or not, reach a server or not, are answered or not; reads
 * fail, servers are cut off, promoted, emptied, at any moment and any number of times. Only time is counted,
 * in ticks, by one clock that both sides read without drift (the MARGIN is there for what clocks and the guard
 * process lose). Silence for ever is therefore covered, and so is every pause of the observer.
 *
 * Each rule is a switch: 1 follows the design, 0 leaves the rule out. [M] marks a rule that was found by model
 * checking; test_model.py shows that none of them can be spared.
 */

/* [M] A beat is on a majority of the PostgreSQL nodes before it is answered: synchronous commit. */
#ifndef RULE_SYNCHRONOUS_BEAT
#define RULE_SYNCHRONOUS_BEAT 1
#endif
/* [M] A beat writes only `where counter < new`: one that was given up on cannot undo a later one. */
#ifndef RULE_FORWARD_ONLY
#define RULE_FORWARD_ONLY 1
#endif
/* [M] A Redis beat, a node's or the observer's, is accepted only if WAIT counts a majority. */
#ifndef RULE_WAIT_FOR_MAJORITY
#define RULE_WAIT_FOR_MAJORITY 1
#endif
/* [M] From the moment it sends `off`, the node lets only PostgreSQL count. */
#ifndef RULE_OFF_WHEN_SENT
#define RULE_OFF_WHEN_SENT 1
#endif
/* [M] Redis counts again only once `on` was acknowledged. */
#ifndef RULE_ON_WHEN_ACKNOWLEDGED
#define RULE_ON_WHEN_ACKNOWLEDGED 1
#endif
/* A gap in the observer's own accepted Redis beats, or another server's run id, restarts its Redis window. */
#ifndef RULE_WINDOW_RESTARTS
#define RULE_WINDOW_RESTARTS 1
#endif
/* A missing key is no proof of silence: whatever it held before, nobody saw. */
#ifndef RULE_MISSING_PROVES_NOTHING
#define RULE_MISSING_PROVES_NOTHING 1
#endif
/* Both stores must have been silent through the same lease + guard. */
#ifndef RULE_COMMON_WINDOW
#define RULE_COMMON_WINDOW 1
#endif
/* Silence in Redis is measured up to the last accepted read, never up to now. */
#ifndef RULE_UP_TO_LAST_READ
#define RULE_UP_TO_LAST_READ 1
#endif
/* The node's deadline is never later than `store_outage` after its latest accepted PostgreSQL beat. */
#ifndef RULE_OUTAGE_FENCE
#define RULE_OUTAGE_FENCE 1
#endif

/* Ticks. GAP < GUARD + MARGIN and OUTAGE - MARGIN > LEASE + GUARD, as with the real settings. */
#ifndef LEASE
#define LEASE 3
#endif
#ifndef GUARD
#define GUARD 1
#endif
#ifndef MARGIN
#define MARGIN 1
#endif
#ifndef OUTAGE
#define OUTAGE 6
#endif
#ifndef GAP
#define GAP 1
#endif

#include "beats/counters.pml"
#include "beats/state.pml"
#include "beats/stores.pml"
#include "beats/worker.pml"
#include "beats/observer.pml"

/* Time passes for everybody at once; an age that can no longer change a decision stops growing. */
#define older(age, limit) age = ((age) < (limit) -> (age) + 1 : (age))

active proctype Time()
{
end:    do
        :: d_step {
                GOES_ON ->
                older(worker_redis_age, FENCE);
                older(worker_postgres_age, OUTAGE);
                older(redis_still, LEASE + GUARD);
                older(redis_unread, GAP + 1);
                if :: redis_unread > GAP -> void_redis_window() :: else fi;
                older(postgres_still, OUTAGE + GUARD)
           }
        od
}
