/*
 * What nodes say to each other of one file, and clients to their own daemon, which asks for them (`nodes: shared`).
 *
 * A request is a tb_wire, then `n` ranges, then `n_gone` extents. An answer is a tb_told, then `n` extents (of a
 * look: none; of SAY: ranges), then bytes (of a fetch). All nodes are of one version and one byte order: the instance's name and the
 * greeting of the network say so.
 */
#ifndef TB_SHARED_WIRE_H
#define TB_SHARED_WIRE_H

#include <stdbool.h>
#include <stdint.h>

/* The same on all nodes: the device is not, and names move. */
struct tb_wire_file {
    uint64_t inode;
    int64_t birth_ns;
};

static inline bool tb_wire_is(const struct tb_wire_file *a, const struct tb_wire_file *b)
{
    return a->inode == b->inode && a->birth_ns == b->birth_ns;
}

struct tb_wire_range {
    uint64_t lo, hi;
};

/* Bytes that a node holds and the PFS lacks; `version` is of the commit that told so. */
struct tb_wire_extent {
    uint64_t lo, hi, version;
    uint32_t node;
    uint32_t is_all; /* of an answer to a commit or a cut: of all that was asked, which has too many ranges to be told */
};

enum tb_wire_op {
    /* Asked of the file's keeper, which knows which node has which bytes. */
    TB_WIRE_LOOK = 1, /* what is known of the file; a client's own daemon asks WHERE for it */
    TB_WIRE_WHERE,    /* the same, and extents of [lo, hi), `version` of them at most; `before` of the answer: up to where it is whole */
    /*
     * The ranges are the asker's from now on (`version`, odd: and it changed the PFS). `hi`: the number of what it says, by its
     * clock. Extents in the answer: of other nodes, which have to let go of these, for this commit or an earlier one of the
     * asker; or of the asker, and then nothing changed: it has to let go of its own for those commits, so ask without what is
     * older. `lo`: such commits up to that one are known.
     * -ESTALE, as of END and CUT: the keeper has heard a later number of the asker.
     */
    TB_WIRE_COMMIT,
    TB_WIRE_GONE,   /* the nodes of the `n_gone` extents have let go for the commits of these versions, when their clock was `hi` */
    TB_WIRE_END,    /* the ranges are on the PFS; `hi` as of COMMIT */
    TB_WIRE_CUT,    /* nothing from `lo` on is of the file any more; as COMMIT */
    TB_WIRE_REMOVE, /* the file has no name any more; extents in the answer: the nodes that have to lose it first, then ask again */
    /*
     * Second copies (`copies: 2`). The ranges are in order; after them the file's path, of `n_gone` bytes, and then their bytes; `hi`: the
     * number of the commit that is about to name them. -ENOBUFS: there is no room.
     */
    TB_WIRE_COPY,
    TB_WIRE_WHERE_COPY, /* which parts of [lo, hi) are here, of what node number `version` committed: extents in the answer */
    TB_WIRE_READ_COPY,  /* bytes [lo, hi) of these; -ESTALE: they are not here */
    /* Of the node that has the bytes. */
    TB_WIRE_READ, /* bytes [lo, hi); -ESTALE: they are not here */
    /*
     * The ranges are another node's now; the answer is the clock. -EAGAIN: a flush is under way; -EBUSY: not before a flush, but none
     * of them goes to the PFS from here any more. `version`: of the commit; what was written here after it, or named by no commit, stays.
     */
    TB_WIRE_LET_GO,
    TB_WIRE_LOSE,  /* the file has no name any more */
    TB_WIRE_FLUSH, /* put it on the PFS, soon */
    /* Of any node. */
    TB_WIRE_STATE,
    TB_WIRE_DIRTY, /* of a file with a lost keeper: what of [lo, hi) is dirty at the asked node; `version` 0: only whether, and its end */
    /*
     * Of the node that lends its memory, in what it lends to the asker: `n` bytes from place `hi` on, of the buffer that begins at place
     * `lo`. To the own daemon: from byte `hi` on of buffer number `lo`. `version` is the number of this use (shared/borrow.h).
     * -ESTALE: a later use of the buffer came first; -ENODATA: the memory was given back.
     */
    TB_WIRE_PUT,
    TB_WIRE_GET,
    TB_WIRE_RETURN, /* the asker is about to end: take back what is in its memory */
    /* Of a client to its own daemon only. */
    TB_WIRE_SAY,     /* commit what is dirty of the file, and [lo, hi), which is about to be; `version`: enum tb_say */
    TB_WIRE_SAY_END, /* what of the ranges is not dirty any more is on the PFS */
    TB_WIRE_FETCH,   /* [lo, hi): the answer has the extents, and the bytes of those that other nodes have */
    TB_WIRE_SETTLE,  /* all bytes of other nodes go to the PFS */
    TB_WIRE_AWAIT,   /* the others have let go for the commits of this node up to `version`, as far as `lo` says (tb_owed) */
};

enum { TB_WIRE_MOST = 1024, TB_WIRE_MOST_FETCHED = 256 }; /* extents of an answer: of any, and of a fetch */

struct tb_wire {
    uint32_t op, n, n_gone;
    uint32_t again; /* of LET_GO: the node has said before that it can't yet; of COMMIT: enum tb_copies */
    struct tb_wire_file file;
    uint64_t lo, hi, version;
};

/* What a commit says of the asker's second copies. */
enum tb_copies {
    TB_COPIES_SENT = 1, /* those of all ranges were sent before it, with its number; older ones count no more */
    TB_COPIES_VOID = 2, /* those that were sent up to number `version` / 2 count no more: the PFS has these bytes, or newer ones */
    TB_COPIES_NONE = 4  /* there are none of it: it takes no bytes from other nodes */
};

/* How a commit is meant, of a client. */
enum tb_say {
    TB_SAY_PASSED = 1,  /* it changed the PFS, too */
    TB_SAY_EARLY = 2,   /* no program asked for it, so nothing is promised: a flush did, */
    TB_SAY_WRITERS = 4, /* or a write that is under way, of which a part may be taken along */
    TB_SAY_RANGES = 8,  /* the answer has the ranges that this node has now, as many as there is room for */
    TB_SAY_ON_PFS = 16  /* a flush has put on the PFS what the bare commit with number `lo` was of, so it needs no second copy */
};

/* What other nodes still have of bytes that this node has committed since. */
enum tb_owed {
    TB_OWED_NOTHING,
    TB_OWED_BYTES,  /* they are in their tiers, and never go to the PFS */
    TB_OWED_FLUSHES /* they may be on their way to the PFS */
};

struct tb_told {
    uint64_t before, version; /* of the file, before this call and now; 0: no node committed anything of it */
    uint64_t end;             /* where its last extent ends */
    uint32_t n;               /* extents that follow, or ranges */
    uint32_t elsewhere;       /* 1: other nodes than the asker have some */
    uint32_t voids;           /* 1: the asker has yet to let go of some of it */
    /* By the own daemon, of SAY: */
    uint32_t owed;     /* enum tb_owed */
    uint32_t n_let_go; /* of the file, when it was listed */
    uint32_t bare;     /* 1: no other node has a copy of it; */
    uint64_t said;     /* the number of it */
    /*
     * By the keeper, of a commit without copies: 1: nothing has changed, and the extents are what other nodes have of its ranges. The
     * asker may be lost before it has flushed, so those go to the PFS first.
     */
    uint64_t held;
};

/* What a node says of itself. */
struct tb_wire_state {
    uint64_t dirty, extents;      /* bytes in its tiers that the PFS lacks; extents that it keeps, as the keeper of files, */
    uint64_t kept_bytes;          /* and the memory of all that it keeps */
    uint64_t answered;            /* messages of other nodes about files and bytes, since its start */
    uint64_t lends, lent;         /* bytes of its memory for other nodes' buffers; what these use of them, as they told last */
    uint64_t borrows, here;       /* bytes of its own buffers in other nodes' memory; and in the asker's */
    uint64_t here_dirty;          /* of these, what the asker's end would lose */
    uint64_t lost;                /* bytes that the PFS lacks, in the memory of nodes that are lost */
    uint64_t copies, copies_most; /* bytes of second copies that it keeps for others, and how many it would */
    uint32_t ends, ended;         /* it is being stopped; and has nothing left */
};

#endif
