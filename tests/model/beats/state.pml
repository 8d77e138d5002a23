/* Everything that is remembered. `front` is a store's primary, `heir` the replica that would be promoted. */

/* Which server the observer's last accepted read came from: a run id, or a system with its timeline. */
#define NEITHER 0
#define FRONT 1
#define HEIR 2

bool redis_split = false;               /* the heir is promoted and the old front still accepts */
byte redis_front = 1;                   /* the node's counter as this server has it */
byte redis_heir = 1;

bool postgres_split = false;
byte postgres_front = 1;
byte postgres_heir = 1;
bool postgres_front_on = true;          /* the flag `redis = on | off` committed with the counter */
bool postgres_heir_on = true;

byte late_beat = MISSING;               /* a PostgreSQL beat the node gave up on, which may yet be applied */
bool late_beat_on = false;

byte worker_redis_age = 0;              /* since the start of the latest accepted beat */
byte worker_postgres_age = 0;
bool worker_counts_redis = true;

byte redis_seen = 1;                    /* the observer's side: the last counter it saw, */
byte redis_still = 0;                   /* how long ago it saw it change or its window began, */
byte redis_unread = 0;                  /* how long ago its last accepted read was, */
byte redis_known = FRONT;               /* where that was, */
bool redis_silent = false;              /* and whether that read completed a silence of lease + guard */
byte postgres_seen = 1;
byte postgres_still = 0;

/* The self-fence: the guard process kills every runner when this turns false, and it never turns true again. */
#define FENCE (LEASE - MARGIN)
#define WITHIN_LEASE \
        (worker_postgres_age < FENCE || (worker_counts_redis && worker_redis_age < FENCE))
#define WITHIN_OUTAGE (!RULE_OUTAGE_FENCE || worker_postgres_age < OUTAGE - MARGIN)
#define EXECUTES (WITHIN_LEASE && WITHIN_OUTAGE)

/* A fenced node is harmless: what happens afterwards is its next incarnation's story. */
#ifndef WITNESS
#define GOES_ON EXECUTES
#else
#define GOES_ON true
#endif
