/*
 * Counters grow without bound, but only their order matters: after each step the values in use are squeezed
 * to 1, 2, 3, ... in the same order. 0 stands for a missing key.
 */
#define MISSING 0
#define NEWEST 6        /* above every value in use: what a beat that is sent now carries */

byte in_use = 0;        /* bit n: some holder has the value n; zero between steps */

#define BELOW(value, n) ((value) > n && ((in_use >> n) & 1) -> 1 : 0)
#define SQUEEZED(value) \
        ((value) == MISSING -> MISSING : \
         1 + BELOW(value, 1) + BELOW(value, 2) + BELOW(value, 3) + BELOW(value, 4) + BELOW(value, 5))

#define squeeze_redis() \
        in_use = (1 << redis_front) | (1 << redis_heir) | (1 << redis_seen); \
        redis_front = SQUEEZED(redis_front); \
        redis_heir = SQUEEZED(redis_heir); \
        redis_seen = SQUEEZED(redis_seen); \
        in_use = 0

#define squeeze_postgres() \
        in_use = (1 << postgres_front) | (1 << postgres_heir) | (1 << postgres_seen) | (1 << late_beat); \
        postgres_front = SQUEEZED(postgres_front); \
        postgres_heir = SQUEEZED(postgres_heir); \
        postgres_seen = SQUEEZED(postgres_seen); \
        late_beat = SQUEEZED(late_beat); \
        in_use = 0
