/*
 * Dispersion units by byte ranges: a text file says which bytes of a file belong together,
 * as the bytes of an HDF5 data set do (`tb-h5units` writes it).
 *
 *   # comment
 *   file PATTERN             of the path; `*` also matches slashes; the first that matches
 *   OFFSET LENGTH UNIT       bytes; all ranges of one UNIT, any text, are one unit
 *
 * Read when an instance starts and kept in its region, so that all processes see the same.
 * Only data-locality asks.
 */
#ifndef TB_UNITS_H
#define TB_UNITS_H

#include "config/config.h"

#define TB_UNIT_RANGES_MAX (1u << 20)

struct tb_unit_range {
    uint64_t start, end;
    uint32_t unit; /* number within its file */
};

/*
 * The table that `placement.units` names, its files noted in `config`; allocated, NULL
 * where there is none.  0, or -EINVAL / -errno with `err` naming file and line.
 */
int tb_units_read(struct tb_config *config, struct tb_unit_range **out, struct tb_error *err);

/* Which `file` of the table a path is, plus one; 0: none. */
uint32_t tb_units_of_path(const struct tb_config_placement *settings, const char *path);

/* The range that holds `offset`; where none does, NULL and the gap around it. */
const struct tb_unit_range *tb_units_find(const struct tb_config_placement *settings, const struct tb_unit_range *ranges, uint32_t of_path,
                                          uint64_t offset, uint64_t *gap_start, uint64_t *gap_end);

#endif
