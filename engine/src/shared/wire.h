/*
 * What nodes say to each other of one file, and clients to their own daemon, which asks for them (`nodes: shared`).
 *
 * A request is a tb_wire, then `n` ranges, then `n_gone` extents. An answer is a tb_told, then `n` extents (of a
 * look: none), then bytes (of a fetch). All nodes are of one version and one byte order: the instance's name and the
 * greeting of the network say so.
 */
#ifndef TB_SHARED_WIRE_H
#define TB_SHARED_WIRE_H

#include <stdint.h>

/* The same on all nodes: the device is not, and names move. */
struct tb_wire_file {
    uint64_t inode;
    int64_t birth_ns;
};

struct tb_wire_range {
    uint64_t lo, hi;
};

/* Bytes that a node holds and the PFS lacks; `version` is of the commit that told so. */
struct tb_wire_extent {
    uint64_t lo, hi, version;
    uint32_t node, unused;
};

enum tb_wire_op {
    /* Of the file's keeper, which keeps who has what. */
    TB_WIRE_LOOK = 1, /* what is known of the file */
    TB_WIRE_WHERE,    /* extents of [lo, hi), `version` of them at most; `before` of the answer: up to where it is whole */
    /*
     * The ranges are the asker's from now on (`version` 1: and it changed the PFS; `hi`: its clock when it listed them). Extents in
     * the answer: of other nodes, which have to let go of these (up to UINT64_MAX: of all ranges); or of the asker, and then nothing
     * changed: it has to let go of its own for those commits, so ask without what is older. `lo`: such commits up to that one are known. -ESTALE: the list is older than what the asker let go of or flushed.
     */
    TB_WIRE_COMMIT,
    TB_WIRE_GONE,   /* the nodes of the `n_gone` extents have let go for the commits of these versions, by their clock `hi` */
    TB_WIRE_END,    /* the ranges are on the PFS, as far as they are of no later commit than `version`, by the asker's clock `hi` */
    TB_WIRE_CUT,    /* nothing from `lo` on is of the file any more; as COMMIT */
    TB_WIRE_REMOVE, /* the file has no name any more; extents in the answer: who has to lose it first, then ask again */
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
    /* Of a client to its own daemon only. */
    TB_WIRE_FETCH,  /* [lo, hi): the answer has the extents, and the bytes of those that other nodes have */
    TB_WIRE_SETTLE, /* all bytes of other nodes go to the PFS */
    TB_WIRE_AWAIT,  /* the others have let go for the commits of this node up to `version`, as far as `lo` says (tb_owed) */
};

enum { TB_WIRE_MOST = 1024, TB_WIRE_MOST_FETCHED = 256 }; /* extents of an answer: of any, and of a fetch */

struct tb_wire {
    uint32_t op, n, n_gone;
    uint32_t again; /* of LET_GO: the node has said before that it can't yet */
    struct tb_wire_file file;
    uint64_t lo, hi, version;
};

/* What other nodes still have of bytes that this node has committed since. */
enum tb_owed {
    TB_OWED_NOTHING,
    TB_OWED_BYTES,  /* they are in their tiers, and never go to the PFS */
    TB_OWED_FLUSHES /* they may be on their way to the PFS */
};

struct tb_told {
    uint64_t before, version; /* of the file, before this call and now; 0: nobody committed anything of it */
    uint64_t end;             /* where its last extent ends */
    uint32_t n;               /* extents that follow */
    uint32_t elsewhere;       /* 1: other nodes than the asker have some */
    uint32_t owed, unused;    /* of a commit: enum tb_owed, by the own daemon */
};

/* What a node says of itself. */
struct tb_wire_state {
    uint64_t dirty, extents; /* bytes in its tiers that the PFS lacks; extents that it keeps, as the keeper of files */
    uint32_t ends, ended;    /* it is being stopped; and has nothing left */
};

#endif
