/*
 * The coordinator's fence (DESIGN section 5): nothing is assigned under a term once a newer one exists (I3).
 *
 * The leader key in Redis is not here. It may be lost at any moment, and after 15 s without the term's beat nobody
 * asks for it: so any node may stand at any time, and the key only keeps them from doing so all at once.
 *
 * What PostgreSQL answers may be lost, and a commit that nobody confirmed shows on the primary all the same. A node
 * here is careless: it believes to be in office as soon as the row says so, replicated or not. A failover then
 * brings back an older term number, and with it a second holder of the next one.
 */

/* A coordinator's transaction passes only where term *and* holder are its own; 0: it compares the term alone. */
#ifndef RULE_HOLDER_COMPARED
#define RULE_HOLDER_COMPARED 1
#endif
/* It keeps the row locked until its commit; 0: it looks, and writes later. */
#ifndef RULE_ROW_HELD
#define RULE_ROW_HELD 1
#endif
/* A term is taken by compare-and-set on (term, holder) as read; 0: it is simply written. */
#ifndef RULE_COMPARE_AND_SET
#define RULE_COMPARE_AND_SET 1
#endif

#ifndef NODES
#define NODES 3
#endif
#ifndef TERMS
#define TERMS 4
#endif

#define NOBODY 0
#define ME (_pid + 1)

/* The term row on the primary, and on the replica that would be promoted. */
byte front_term = 0;
byte front_holder = NOBODY;
byte heir_term = 0;
byte heir_holder = NOBODY;

byte locked_by = NOBODY;                /* a transaction that passed the fence and has not ended */
bool writing[NODES + 1];                /* by node: such a transaction is open */

#define FREE (locked_by == NOBODY || !RULE_ROW_HELD)

/* A commit waits for the standbys, which replay in order: with it, everything before it is safe. */
#define replicated() heir_term = front_term; heir_holder = front_holder

/* The row was seen as it is: the next one in office is the reader, or somebody was quicker. */
#define forget_reading() seen_term = 0; seen_holder = NOBODY; has_read = false

active [NODES] proctype Node()
{
        byte seen_term = 0;
        byte seen_holder = NOBODY;
        bool has_read = false;
        byte office = 0;                /* the term it believes to hold; 0: none */

end:    do
        :: d_step { office == 0 && !has_read && front_term < TERMS ->
                seen_term = front_term;
                seen_holder = front_holder;
                has_read = true
           }
        :: d_step { has_read -> forget_reading() }
        :: atomic { has_read && FREE &&
                    (!RULE_COMPARE_AND_SET || (front_term == seen_term && front_holder == seen_holder)) ->
                assert(seen_term + 1 > front_term);
                front_term = seen_term + 1;
                front_holder = ME;
                office = front_term;
                forget_reading();
                if :: replicated() :: skip fi
           }
        :: d_step { office == 0 && front_holder == ME -> office = front_term }  /* "it was mine already" */
        :: d_step { office != 0 && !writing[ME] -> office = 0 }                 /* steps down, or starts again */

        :: d_step { office != 0 && !writing[ME] && FREE &&
                    front_term == office && (!RULE_HOLDER_COMPARED || front_holder == ME) ->
                writing[ME] = true;
                locked_by = (RULE_ROW_HELD -> ME : NOBODY)
           }
        :: atomic { writing[ME] ->
#ifdef WITNESS
                assert(office < WITNESS);
#endif
                assert(front_term == office && front_holder == ME);             /* I3 */
                writing[ME] = false;
                locked_by = NOBODY;
                if :: replicated() :: skip fi
           }
        :: d_step { writing[ME] -> writing[ME] = false; locked_by = NOBODY }    /* ended by its successor */
        od
}

active proctype PostgreSQL()
{
        byte node;

end:    do
        :: d_step { heir_term != front_term || heir_holder != front_holder -> replicated() }
        :: d_step { heir_term != front_term || heir_holder != front_holder || locked_by != NOBODY ->
                front_term = heir_term;
                front_holder = heir_holder;
                locked_by = NOBODY;
                for (node : 0 .. NODES) { writing[node] = false }
                node = 0
           }
        od
}
