/* A configuration of tiers: read, and its layout computed. */
#include "fuzz.h"

#include "region/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tb_config out;
    struct tb_error err = {""};
    int rc = tb_config_read(fuzz_file(data, size), &out, &err);
    struct tb_layout layout;
    if (!rc)
        tb_layout_compute(&out, &layout, &err);
    return 0;
}
