/*
 * Second copies (`copies: 2`, docs/nodes.md) as steps of processes: spin tries all their orders.
 *
 * One file of one cell. A (0) writes and commits, B (1) reads or writes, and a third node is the keeper. A may be cut off, or killed, before
 * any step. Then what it asks fails, and the keeper puts its copy on the PFS. A killed A goes on here without any effect. The names are those
 * of the code (daemon/turn.c, daemon/keeper.c, daemon/copies/). Bytes are the number of the write that put them there, 0 what was there before.
 * Left out: blocks, cuts, removals, a lost keeper, and what `tierctl recover` does on A.
 *
 * SCENE says what the workers do. ROOM: the keeper may have no room for a copy. LOST_END: the message that newer bytes are on the PFS may be
 * lost. What is wrong on purpose: COPY_LATE: the copy is sent after the commit. STAYS: the copy stays when its bytes are another node's, or
 * on the PFS. NO_FENCE: a node whose copy went to the PFS is believed. OPEN: commits are taken while a copy is on its way there. TAKES: a
 * commit without a copy takes bytes from the other node. SAVED_ONCE: what a node that was cut off has on its way to the PFS is forgotten.
 */
#define BIT(w) (1 << (w))
#define OTHER(n) (1 - (n))
#define WRITES 4      /* numbers 1 to 3 */
#define UNNAMED 15    /* of a note: its write is in no commit; else the version of its commit; 0: no note */
#define IS_OWN(n, w) ((begun & BIT(w)) && node_of[w] == (n))
#define IS_CUT(n) ((n) == 0 && fate != LIVES)

mtype = {LIVES, CUT_OFF, KILLED}; /* of A */
mtype = {PROGRAM, EARLY, ON_PFS}; /* who asks for a commit */
mtype fate = LIVES;

/* Of each node. */
byte val[2];
bool has[2], dirty[2], turn[2], claimed[2];
byte clock[2], n_let_go[2], n_written[2];
byte sent[2];         /* the state that was sent last; 0: none */
byte debt[2];         /* the version of a commit of this node, for which the other one has to let go; 0: none */
byte note[WRITES];

/* The keeper, with its copies of each node; and the PFS. */
byte version, owner;  /* owner: node + 1; 0: the PFS has it */
byte gone[2];         /* the version of the other node's commit that this one has older bytes of; 0: none */
byte staged[2], now[2], staged_clock[2], taken[2];
bool has_staged[2], has_now[2], fenced[2], saved[2], saving[2];
byte pfs;

/* What programs may rely on: the commit model. */
byte node_of[WRITES], begun, committed;
byte replaced[WRITES]; /* by which writes: later ones of its node, and of others that began after it was committed */

byte n_workers;
bool is_over;

#define LOCALS \
    byte i, v, said, known, let_go_then, snapshot, state, found, must, listed; \
    bool list, left, failed, bare, refused, is_held, is_sent;
#define CLEAN \
    i = 0; v = 0; said = 0; known = 0; let_go_then = 0; snapshot = 0; state = 0; found = 0; must = 0; listed = 0; \
    list = false; left = false; failed = false; bare = false; refused = false; is_held = false; is_sent = false

inline write_cell(n, w)
{
    d_step {
        node_of[w] = n;
        for (i : 1 .. WRITES - 1) {
            if :: i != w && (IS_OWN(n, i) || (committed & BIT(i))) -> replaced[i] = replaced[i] | BIT(w) :: else fi
        }
        begun = begun | BIT(w);
        val[n] = w; has[n] = true; dirty[n] = true; note[w] = UNNAMED; n_written[n]++;
        i = 0
    }
}

/* found: the node has a note of a write that is newer than that version. */
inline is_newer(n, v0)
{
    found = 0;
    for (i : 1 .. WRITES - 1) { if :: IS_OWN(n, i) && note[i] > (v0) -> found = 1 :: else fi };
    i = 0
}

/* Copies of bytes that their node has no longer go, in the keeper's step. */
inline keep_copies()
{
#ifdef STAYS
    skip
#else
    if :: owner != 1 -> has_now[0] = false :: else fi;
    if :: owner != 2 -> has_now[1] = false :: else fi
#endif
}

/* COPY: staged under the number of its list. */
inline copy_out(n)
{
    d_step {
        if
        :: IS_CUT(n) -> failed = true
        :: else -> staged[n] = val[n]; has_staged[n] = true; staged_clock[n] = clock[n]; is_sent = true
        fi
    }
}

inline take_staged(n)
{
    now[n] = staged[n]; has_now[n] = has_staged[n] && staged_clock[n] == clock[n]; taken[n] = clock[n]; has_staged[n] = false
}

#ifdef OPEN
#define IS_BUSY false
#else
#define IS_BUSY (saving[0] || saving[1])
#endif
#ifdef NO_FENCE
#define IS_FENCED(n) false
#else
#define IS_FENCED(n) fenced[n]
#endif

/* COMMIT: failed, refused, or taken as `said`. */
inline ask_keeper(n, how, bare_clock)
{
    refused = false; is_held = false;
    if
    :: IS_CUT(n) || IS_BUSY || IS_FENCED(n) -> failed = true
    :: else ->
        if
        :: list && gone[n] > known -> refused = true; known = gone[n]
#ifndef TAKES
        :: list && gone[n] <= known && owner == OTHER(n) + 1 && !is_sent -> is_held = true
        :: else ->
#else
        :: else ->
#endif
            version++; said = version; assert(version < UNNAMED);
            if
            :: list && owner != n + 1 ->
                if :: owner == OTHER(n) + 1 || gone[OTHER(n)] -> gone[OTHER(n)] = said; debt[n] = said :: else fi
            :: else
            fi;
            if :: list -> owner = n + 1 :: else fi;
#ifndef COPY_LATE
            if :: is_sent -> take_staged(n) :: else -> has_staged[n] = false fi;
#endif
            if :: how == ON_PFS && taken[n] <= (bare_clock) -> has_now[n] = false :: else fi;
            keep_copies()
        fi
    fi
}

#define STATE(n) (n_written[n] * 16 + n_let_go[n] * 2 + list + 1)

/* turn_commit: what is sent and what the keeper takes are of one turn. `bare`: there was no room for the copy. */
inline say(n, how, bare_clock)
{
    atomic { !turn[n] -> turn[n] = true };
    d_step {
        clock[n]++; list = dirty[n]; left = false; let_go_then = n_let_go[n]; known = 0; is_sent = false; bare = false; failed = false;
        listed = 0;
        for (i : 1 .. WRITES - 1) { if :: IS_OWN(n, i) && note[i] -> listed = listed | BIT(i) :: else fi };
        state = (how == PROGRAM -> STATE(n) : 0);
        i = 0
    }
    if
    :: how == PROGRAM && sent[n] != state && list ->
#ifdef ROOM
        if :: copy_out(n) :: bare = true; state = 0 fi
#else
        copy_out(n)
#endif
    :: how == PROGRAM && sent[n] != state && !list -> is_sent = true
    :: else
    fi;
    do
    :: failed -> break
    :: else ->
        d_step { ask_keeper(n, how, bare_clock) }
        if
        :: refused ->
            d_step { is_newer(n, known); if :: !found -> list = false; left = true :: else fi; found = 0 }
        :: is_held && how == EARLY -> d_step { list = false; left = true }
        :: is_held && how != EARLY -> failed = true
        :: else -> break
        fi
    od;
    skip;
#ifdef COPY_LATE
    if :: is_sent && list && !failed -> copy_out(n); d_step { take_staged(n); failed = false } :: else fi;
#endif
    d_step {
        if
        :: !failed && !left ->
            for (i : 1 .. WRITES - 1) {
                if :: (listed & BIT(i)) && (note[i] == UNNAMED || note[i] < said) -> note[i] = said :: else fi
            }
        :: else
        fi;
        if :: how != EARLY -> sent[n] = (failed -> 0 : state) :: else fi;
        i = 0; turn[n] = false
    }
}

/* A program's commit: returns well when the bytes are with two nodes, or on the PFS, and the other node has let go of older ones. */
inline fsync(n)
{
    d_step {
        for (i : 1 .. WRITES - 1) { if :: IS_OWN(n, i) -> snapshot = snapshot | BIT(i) :: else fi };
        i = 0
    }
    say(n, PROGRAM, 0);
    if
    :: bare && !failed ->
        must = clock[n];
        flush_it(n);
        if :: !failed -> say(n, ON_PFS, must) :: else fi;
        must = 0
    :: else
    fi;
    if :: !failed -> (!debt[n] || fate != LIVES) :: else fi;
    d_step {
        if :: !failed && !debt[n] -> committed = committed | snapshot :: else fi;
        CLEAN
    }
}

/* A grant, the claim, the bytes, and the end. */
inline flush_it(n)
{
    say(n, EARLY, 0);
    if :: !failed -> (!debt[n] || fate != LIVES) :: else fi;
    if
    :: failed || debt[n] -> failed = true
    :: else ->
        atomic { !claimed[n] -> claimed[n] = true };
        if
        :: let_go_then == n_let_go[n] && list && dirty[n] ->
            v = val[n];
            d_step { if :: n == 0 && fate == KILLED :: else -> pfs = v fi };
            d_step { if :: val[n] == v -> dirty[n] = false :: else fi; v = 0 };
            atomic { !turn[n] -> turn[n] = true };
            if
            :: d_step { !IS_CUT(n) && !IS_FENCED(n) && !dirty[n] && owner == n + 1 -> owner = 0; keep_copies() }
#ifdef LOST_END
            :: skip
#endif
            :: else
            fi;
            turn[n] = false
        :: else
        fi;
        claimed[n] = false
    fi
}

inline flush(n)
{
    flush_it(n);
    d_step { CLEAN }
}

/* The other node lets go of what is older than that commit; one that is cut off does not hear of it. */
active [2] proctype deliver()
{
    byte n, m, i, found;
    n = _pid; m = OTHER(_pid);
    do
    :: atomic {
           debt[n] && !turn[m] && !claimed[m] && fate == LIVES ->
           is_newer(m, debt[n]);
           n_let_go[m]++;
           if :: !found -> has[m] = false; dirty[m] = false; val[m] = 0 :: else fi;
           if :: gone[m] == debt[n] -> gone[m] = 0 :: else fi;
           debt[n] = 0; found = 0
       }
    :: is_over -> break
    od
}

/* What B, or the keeper, reads of the file: from where the keeper says, and once more where that was not true any more. */
inline open_and_read()
{
    must = committed;
    do
    :: atomic { dirty[1] -> v = val[1] }; break
    :: atomic { !dirty[1] -> snapshot = owner };
       if
       :: atomic { snapshot == 0 || (snapshot == 1 && fate != LIVES && !has_now[0]) -> v = pfs }; break
       :: atomic { snapshot == 1 && fate == LIVES && has[0] -> v = val[0] }; break
       :: atomic { snapshot == 1 && fate != LIVES && has_now[0] -> v = now[0] }; break
       :: atomic { snapshot == 2 && has[1] -> v = val[1] }; break
       :: else
       fi
    od;
    skip;
    d_step { check(v); CLEAN }
}

inline check(got)
{
    for (i : 1 .. WRITES - 1) {
        if
        :: (must & BIT(i)) && i != got ->
            assert(got != 0);                 /* it is lost */
            assert(!(replaced[got] & BIT(i))) /* what was read is old */
        :: else
        fi
    }
    i = 0
}

/* A is cut off once; then it comes back, or was killed. */
proctype lose()
{
    if :: fate = CUT_OFF :: skip fi;
    if
    :: atomic { fate == CUT_OFF -> fate = LIVES }
    :: atomic { fate == CUT_OFF -> fate = KILLED }
    :: fate != CUT_OFF
    fi;
    n_workers--
}

/* The keeper, once A is lost for long. The bytes of the job are those of its begin. */
inline save()
{
    if
    :: atomic { (fate != LIVES || fenced[0]) && has_now[0] && !saved[0] -> saving[0] = true; v = now[0] };
       pfs = v;
       d_step { saving[0] = false; fenced[0] = true; saved[0] = true; v = 0 }
    :: else
    fi
}

proctype save_copies()
{
    byte v;
    if :: fate != LIVES -> save() :: skip fi;
    n_workers--
}

#if SCENE == 1    /* two commits and a flush */
#define A1 write_cell(0, 1); fsync(0); write_cell(0, 2); fsync(0)
#define A2 flush(0)
#define B1 skip
#elif SCENE == 2  /* the same, with a reader */
#define A1 write_cell(0, 1); fsync(0); write_cell(0, 2); fsync(0)
#define A2 flush(0)
#define B1 open_and_read()
#elif SCENE == 3  /* a flush meets a commit of the other node */
#define A1 write_cell(0, 1)
#define A2 flush(0)
#define B1 write_cell(1, 3); fsync(1)
#elif SCENE == 4  /* commits of both nodes, and a flush */
#define A1 write_cell(0, 1); fsync(0)
#define A2 flush(0)
#define B1 write_cell(1, 3); fsync(1); open_and_read()
#elif SCENE == 5  /* three commits, and the other node flushes */
#define A1 write_cell(0, 1); fsync(0); write_cell(0, 2); fsync(0)
#define A2 skip
#define B1 write_cell(1, 3); fsync(1); flush(1)
#endif

proctype worker(byte id)
{
    LOCALS
    if
    :: id == 0 -> A1
    :: id == 1 -> A2
    :: id == 2 -> B1
    fi;
    n_workers--
}

/* When all have ended, what was committed is read, and is on the PFS. */
init
{
    LOCALS
    atomic {
        n_workers = 6;
        run worker(0); run worker(1); run worker(2); run lose(); run save_copies()
    }
    n_workers == 1;
    open_and_read();
    if
    :: fate == LIVES -> fsync(0); fsync(1); flush(0); flush(1); flush(0)
    :: else -> flush(1)
    fi;
#ifndef SAVED_ONCE
    if :: fenced[0] -> saved[0] = false :: else fi;
#endif
    save();
    open_and_read();
    d_step {
        must = committed;
        /* B could not flush what A has not let go of: `tierctl recover` on B does */
        v = (dirty[1] -> val[1] : pfs);
        check(v)
    }
    is_over = true
}
