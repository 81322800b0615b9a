/*
 * The protocol of `nodes: shared` (docs/nodes.md) as steps of processes on two nodes: spin tries all their orders.
 *
 * One file of CELLS cells, where a cell is what changes under one chunk lock, and its keeper. Bytes are the number of the write that put
 * them there, 0 what was there before. The names are those of the code (daemon/turn.c, daemon/keeper.c, shared/local.c, shared/recent.c).
 * Left out: blocks of which a part can't go alone, lost messages, cuts.
 *
 * SCENE says what the workers do. WHOLE: of two writes that nothing orders one is there as a whole. What is wrong on purpose:
 * NO_TURN: commits, ends and letting go of one file meet. SILENT: a write that a flush took along is told to no node. TEARS: a write that
 * lost a part while it was under way is left so. ALONG: a flush takes along what is newer than its grant, as where a program writes again and
 * again; without WHOLE that is right.
 */
#ifndef CELLS
#define CELLS 2
#endif
#define ALL ((1 << CELLS) - 1)
#define WRITES 4            /* numbers 1 to 3 */
#define UNNAMED 31          /* of a note: its write is in no commit; else the version of its commit; 0: no note */
#define ENTRIES 5           /* of a list */
#define BIT(w) (1 << (w))
#define AT(n, c) ((n) * CELLS + (c))
#define NOTE(w, c) note[(w) * CELLS + (c)]
#define OTHER(n) (1 - (n))

#ifdef NO_TURN
#define TURN_TAKE(n) skip
#define TURN_DROP(n) skip
#else
#define TURN_TAKE(n) atomic { !turn[n] -> turn[n] = true }
#define TURN_DROP(n) turn[n] = false
#endif
#ifdef SILENT
#define UNSAID(n) false
#else
#define UNSAID(n) unsaid[n]
#endif
#ifdef TEARS
#define IS_TORN(n) false
#else
#define IS_TORN(n) (seen != n_torn[n])
#endif

#ifdef ALONG
#define IS_SPARED(n, c) false
#else
#define IS_SPARED(n, c) (IS_UNNAMED(n, 1, c) || IS_UNNAMED(n, 2, c) || IS_UNNAMED(n, 3, c))
#endif
#define IS_UNNAMED(n, w, c) (IS_OWN(n, w) && NOTE(w, c) == UNNAMED)

/* Of each node: its bytes of the file, and what it knows. */
byte val[2 * CELLS];
bool has[2 * CELLS], dirty[2 * CELLS];
bool turn[2], claimed[2], tearing[2];
bool unsaid[2];             /* n_written != n_said */
byte n_let_go[2], n_torn[2], known[2];
typedef debts { byte version[ENTRIES]; byte mask[ENTRIES]; bool told[ENTRIES]; bool busy[ENTRIES] };
debts debt[2];              /* what the other one has to let go of for commits of this one; version 0: free */

/* Notes of writes, in the node that wrote. */
byte note[WRITES * CELLS];
bool listed[WRITES * CELLS]; /* noted before the list that is under way */

/* The keeper, and the PFS. */
byte version, owner[CELLS]; /* owner: node + 1; 0: the PFS has it */
typedef voids { byte version[ENTRIES]; byte mask[ENTRIES] };
voids gone[2];              /* of that node */
byte pfs[CELLS];

/* What programs may rely on: the commit model. */
byte node_of[WRITES], cells[WRITES];
byte begun, ended, committed;      /* sets of writes */
byte replaced[WRITES];             /* by which writes: later ones of its node, and of others that began after it was committed */

byte n_workers;

#define OWES(n, v, i) (debt[n].version[i] && debt[n].version[i] <= v)
#define IS_OWED(n, v) (OWES(n, v, 0) || OWES(n, v, 1) || OWES(n, v, 2) || OWES(n, v, 3) || OWES(n, v, 4))
#define MAY_FLUSH(n, v, i) (OWES(n, v, i) && !debt[n].told[i])
#define IS_FLUSHED(n, v) (MAY_FLUSH(n, v, 0) || MAY_FLUSH(n, v, 1) || MAY_FLUSH(n, v, 2) || MAY_FLUSH(n, v, 3) || MAY_FLUSH(n, v, 4))
#define IS_OWN(n, w) ((begun & BIT(w)) && node_of[w] == (n))

#define LOCALS \
    byte i, c, x, v, found, list, left, older, known_to, let_go_then, snapshot, said, fresh, displaces, keep, grant, look, must, seen; \
    bool refused; \
    byte r_version[ENTRIES]; byte r_mask[ENTRIES];
/* What is not needed any more is made equal, so that states that differ in nothing else are one. */
#define CLEAN \
    i = 0; c = 0; x = 0; v = 0; found = 0; list = 0; left = 0; older = 0; known_to = 0; let_go_then = 0; snapshot = 0; said = 0; \
    fresh = 0; displaces = 0; keep = 0; grant = 0; look = 0; must = 0; seen = 0; refused = false; \
    for (i : 0 .. ENTRIES - 1) { r_version[i] = 0; r_mask[i] = 0 }; \
    i = 0

/* found: the node has a note there of a write that is newer than that version. */
inline is_newer(n, c0, v0)
{
    found = 0;
    for (x : 1 .. WRITES - 1) {
        if
        :: IS_OWN(n, x) && NOTE(x, c0) > (v0) -> found = 1
        :: else
        fi
    }
    x = 0
}

inline put_in(entries, v0, mask0)
{
    found = 0;
    for (i : 0 .. ENTRIES - 1) {
        if
        :: entries.version[i] == 0 && !found -> entries.version[i] = v0; entries.mask[i] = mask0; found = 1
        :: else
        fi
    }
    assert(found);
    found = 0; i = 0
}

/* Bytes with their note, cell by cell; once more where another node's commit or a flush took a part (layer/write.c). */
inline write_cells(n, w, m)
{
    d_step {
        cells[w] = m; node_of[w] = n;
        for (i : 1 .. WRITES - 1) {
            if
            :: i != w && (((ended & BIT(i)) && node_of[i] == n) || (committed & BIT(i))) -> replaced[i] = replaced[i] | BIT(w)
            :: else
            fi
        }
        begun = begun | BIT(w);
        i = 0; c = 0
    }
    seen = n_torn[n];
    do
    :: c < CELLS && ((m) & BIT(c)) ->
        d_step {
            val[AT(n, c)] = w; has[AT(n, c)] = true; dirty[AT(n, c)] = true;
            NOTE(w, c) = UNNAMED; listed[w * CELLS + c] = false; unsaid[n] = true;
            c++
        }
    :: c < CELLS && !((m) & BIT(c)) -> c++
    :: c == CELLS ->
        !tearing[n];
        if
        :: IS_TORN(n) -> atomic { seen = n_torn[n]; c = 0 }
        :: else -> break
        fi
    od;
    skip;
    d_step { ended = ended | BIT(w); CLEAN }
}

/* A commit of `list`: refused, or taken as `said`. */
inline ask_keeper(n)
{
    refused = false;
    for (i : 0 .. ENTRIES - 1) {
        r_version[i] = 0; r_mask[i] = 0;
        if
        :: gone[n].version[i] > known_to && (gone[n].mask[i] & list) ->
            r_version[i] = gone[n].version[i]; r_mask[i] = gone[n].mask[i] & list; refused = true
        :: else
        fi
    }
    if
    :: refused
    :: else ->
        fresh = 0; displaces = 0; keep = 0;
        for (c : 0 .. CELLS - 1) {
            if
            :: (list & BIT(c)) && owner[c] != n + 1 ->
                fresh = fresh | BIT(c);
                if :: owner[c] == OTHER(n) + 1 -> displaces = 1 :: else fi
            :: else
            fi
        }
        for (i : 0 .. ENTRIES - 1) {
            if :: gone[OTHER(n)].version[i] && (gone[OTHER(n)].mask[i] & fresh) -> displaces = 1 :: else fi;
            if :: gone[n].version[i] -> keep = 1 :: else fi
        }
        if :: list || look -> version++; assert(version < UNNAMED) :: else fi;
        said = version;
        for (c : 0 .. CELLS - 1) { if :: list & BIT(c) -> owner[c] = n + 1 :: else fi }
        if :: displaces -> put_in(gone[OTHER(n)], said, fresh) :: else fi;
        i = 0; c = 0
    fi
}

inline list_dirty(n)
{
    c = 0; list = 0;
    do
    :: c < CELLS -> d_step { if :: dirty[AT(n, c)] -> list = list | BIT(c) :: else fi; c++ }
    :: c == CELLS -> break
    od;
    c = 0
}

/* turn_commit: `list` is what is this node's then. */
inline say(n)
{
    TURN_TAKE(n);
    d_step {
        for (i : 1 .. WRITES - 1) {
            for (c : 0 .. CELLS - 1) { if :: IS_OWN(n, i) -> listed[i * CELLS + c] = (NOTE(i, c) != 0) :: else fi }
        }
        look = UNSAID(n); unsaid[n] = false; let_go_then = n_let_go[n]; n_torn[n]++; left = 0; known_to = 0; i = 0
    }
    list_dirty(n);
    n_torn[n]++;
    do
    :: d_step { ask_keeper(n) }
       if
       :: refused ->
            d_step {
                older = 0;
                for (i : 0 .. ENTRIES - 1) {
                    for (c : 0 .. CELLS - 1) {
                        if
                        :: r_mask[i] & BIT(c) -> is_newer(n, c, r_version[i]); if :: !found -> older = older | BIT(c) :: else fi
                        :: else
                        fi
                    }
                    if :: r_version[i] > known_to -> known_to = r_version[i] :: else fi
                }
                list = list & ~older; left = left | older; older = 0; c = 0; i = 0; found = 0
            }
       :: else -> break
       fi
    od;
    skip;
    d_step {
        for (i : 1 .. WRITES - 1) {
            for (c : 0 .. CELLS - 1) {
                if
                :: IS_OWN(n, i) && NOTE(i, c) && listed[i * CELLS + c] && !(left & BIT(c)) && (NOTE(i, c) == UNNAMED || NOTE(i, c) < said) ->
                    NOTE(i, c) = said
                :: else
                fi;
                if :: IS_OWN(n, i) && !keep && NOTE(i, c) <= said -> NOTE(i, c) = 0 :: else fi
            }
        }
        if :: displaces -> put_in(debt[n], said, fresh) :: else fi;
        i = 0; c = 0
    }
    TURN_DROP(n)
}

inline fsync(n)
{
    d_step {
        for (i : 1 .. WRITES - 1) {
            if :: IS_OWN(n, i) && (ended & BIT(i)) -> snapshot = snapshot | BIT(i) :: else fi
        }
        i = 0
    }
    say(n);
    !IS_OWED(n, said);
    d_step { committed = committed | snapshot; CLEAN }
}

/* The daemon of n: the other node lets go for one commit, then the keeper hears that. */
proctype deliver(byte n)
{
    byte j, c, x, found, m, older;
    m = OTHER(n);
again:
    do
    :: atomic { debt[n].version[0] && !debt[n].busy[0] -> j = 0; debt[n].busy[0] = true }; break
    :: atomic { debt[n].version[1] && !debt[n].busy[1] -> j = 1; debt[n].busy[1] = true }; break
    :: atomic { debt[n].version[2] && !debt[n].busy[2] -> j = 2; debt[n].busy[2] = true }; break
    :: atomic { debt[n].version[3] && !debt[n].busy[3] -> j = 3; debt[n].busy[3] = true }; break
    :: atomic { debt[n].version[4] && !debt[n].busy[4] -> j = 4; debt[n].busy[4] = true }; break
    :: atomic { n_workers == 0 && !IS_OWED(n, UNNAMED) -> skip }; goto over
    od;
    TURN_TAKE(m);
    if
    :: atomic { claimed[m] -> skip }; TURN_DROP(m); atomic { debt[n].busy[j] = false; j = 0 }; goto again
    :: atomic { !claimed[m] -> claimed[m] = true; tearing[m] = true; n_let_go[m]++ }
    fi;
    d_step {
        for (c : 0 .. CELLS - 1) {
            is_newer(m, c, debt[n].version[j]);
            if :: (debt[n].mask[j] & BIT(c)) && !found -> older = older | BIT(c) :: else fi
        }
        c = 0; found = 0
    }
    do
    :: c < CELLS -> d_step { if :: older & BIT(c) -> has[AT(m, c)] = false; dirty[AT(m, c)] = false; val[AT(m, c)] = 0 :: else fi; c++ }
    :: c == CELLS -> break
    od;
    skip;
    d_step { n_torn[m]++; tearing[m] = false; claimed[m] = false; debt[n].told[j] = true; older = 0; c = 0 }
    TURN_DROP(m);
    d_step {
        for (c : 0 .. ENTRIES - 1) {
            if :: gone[m].version[c] && gone[m].version[c] == debt[n].version[j] -> gone[m].version[c] = 0; gone[m].mask[c] = 0 :: else fi
        }
        c = 0
    }
    atomic { debt[n].version[j] = 0; debt[n].mask[j] = 0; debt[n].told[j] = false; debt[n].busy[j] = false; j = 0 }
    goto again;
over:
    skip
}

/* A grant, the claim, the bytes that the grant covers without those of newer writes, and the end. */
inline flush(n)
{
    do
    :: say(n);
       !IS_FLUSHED(n, said);
       grant = list;
       atomic { !claimed[n] -> claimed[n] = true };
       if :: let_go_then == n_let_go[n] -> break :: else -> claimed[n] = false fi
    od;
    c = 0;
    do
    :: atomic { c < CELLS && (grant & BIT(c)) && dirty[AT(n, c)] && !IS_SPARED(n, c) -> v = val[AT(n, c)] };
        pfs[c] = v;
        d_step { if :: val[AT(n, c)] == v && !IS_SPARED(n, c) -> dirty[AT(n, c)] = false :: else fi; c++; v = 0 }
    :: c < CELLS && !((grant & BIT(c)) && dirty[AT(n, c)] && !IS_SPARED(n, c)) -> c++
    :: c == CELLS -> break
    od;
    TURN_TAKE(n);
    list_dirty(n);
    d_step {
        for (c : 0 .. CELLS - 1) { if :: (grant & BIT(c)) && !(list & BIT(c)) && owner[c] == n + 1 -> owner[c] = 0 :: else fi }
        c = 0
    }
    TURN_DROP(n);
    claimed[n] = false;
    d_step { CLEAN }
}

inline check(c0, got)
{
    for (i : 1 .. WRITES - 1) {
        if
        :: (must & BIT(i)) && (cells[i] & BIT(c0)) && i != got ->
            assert(got != 0);                    /* it is lost */
            assert(!(replaced[got] & BIT(i)))    /* what was read is old */
        :: else
        fi
    }
    i = 0
}

inline note_own_ended(n)
{
    for (i : 1 .. WRITES - 1) { if :: IS_OWN(n, i) && (ended & BIT(i)) -> must = must | BIT(i) :: else fi }
    i = 0
}

/* What it must see: all of its own node, and what was committed before the open began. */
inline open_and_read(n)
{
    must = committed;
    look = version;
    d_step {
        for (c : 0 .. CELLS - 1) {
            if :: look != known[n] && !dirty[AT(n, c)] -> has[AT(n, c)] = false; val[AT(n, c)] = 0 :: else fi
        }
        c = 0
    }
    if :: look > known[n] -> known[n] = look :: else fi;
    d_step { note_own_ended(n); x = 0; left = 0 }
    do
    :: c < CELLS ->
        atomic {
            has[AT(n, c)] || owner[c] != OTHER(n) + 1 || has[AT(OTHER(n), c)];
            if
            :: has[AT(n, c)] -> v = val[AT(n, c)]
            :: !has[AT(n, c)] && owner[c] == OTHER(n) + 1 -> v = val[AT(OTHER(n), c)]
            :: !has[AT(n, c)] && owner[c] != OTHER(n) + 1 -> v = pfs[c]
            fi;
            has[AT(n, c)] = true; val[AT(n, c)] = v
        }
        d_step {
            check(c, v);
            if :: c == 0 -> x = v :: else -> left = v fi;
            v = 0
        }
        c++
    :: c == CELLS -> break
    od;
    skip;
#ifdef WHOLE
    d_step {
        if
        :: x && left && x != left && node_of[x] != node_of[left] && cells[x] == ALL && cells[left] == ALL &&
           (must & BIT(x)) && (must & BIT(left)) ->
            assert((replaced[x] & BIT(left)) || (replaced[left] & BIT(x)))
        :: else
        fi
    }
    skip;
#endif
    d_step { CLEAN }
}

/* What the workers do: A1 and A2 on node 0, B1 and B2 on node 1. */
#if SCENE == 1    /* two commits of one node, and one of the other */
#define A1 write_cells(0, 1, ALL); fsync(0)
#define A2 fsync(0)
#define B1 write_cells(1, 2, ALL); fsync(1)
#define B2 skip
#elif SCENE == 2  /* the same, with a flush */
#define A1 write_cells(0, 1, ALL); fsync(0)
#define A2 flush(0)
#define B1 write_cells(1, 2, ALL); fsync(1)
#define B2 skip
#elif SCENE == 3  /* a flush meets a write, and the other node has read what was there before */
#define A1 write_cells(0, 1, ALL); fsync(0); write_cells(0, 3, 1)
#define A2 flush(0)
#define B1 open_and_read(1); open_and_read(1)
#define B2 skip
#elif SCENE == 4  /* writes and commits of three processes */
#define A1 write_cells(0, 1, ALL); fsync(0)
#define A2 write_cells(0, 3, 1); fsync(0)
#define B1 write_cells(1, 2, ALL); fsync(1)
#define B2 skip
#elif SCENE == 5  /* a flush on both nodes */
#define A1 write_cells(0, 1, ALL); fsync(0)
#define A2 flush(0)
#define B1 write_cells(1, 2, ALL); fsync(1)
#define B2 flush(1)
#elif SCENE == 6  /* a flush begins with older bytes of what a write replaces */
#define A1 write_cells(0, 1, 1); write_cells(0, 3, ALL); fsync(0)
#define A2 flush(0)
#define B1 write_cells(1, 2, ALL); fsync(1)
#define B2 skip
#endif

proctype worker(byte id)
{
    LOCALS
    if
    :: id == 0 -> A1
    :: id == 1 -> A2
    :: id == 2 -> B1
    :: id == 3 -> B2
    fi;
    n_workers--
}

/* When all of them have ended, both nodes and the PFS have what the model allows. */
init
{
    LOCALS
    atomic {
        n_workers = 5;
        run worker(0); run worker(1); run worker(2); run worker(3);
        run deliver(0); run deliver(1)
    }
    n_workers == 1;
    fsync(0); fsync(1);
    assert(committed == ended);
    open_and_read(0); open_and_read(1);
    flush(0); flush(1);
    open_and_read(0); open_and_read(1);
    d_step {
        must = committed;
        for (c : 0 .. CELLS - 1) { check(c, pfs[c]) }
        c = 0; must = 0
    }
    n_workers = 0
}
