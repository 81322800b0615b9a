/* A Hermes 0.1 beta configuration: read, and its layout computed. */
#include "fuzz.h"

#include "config/hermes_conf.h"
#include "region/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tb_config out;
    struct tb_error err = {""};
    int rc = tb_hermes_read(fuzz_file(data, size), NULL, &out, &err);
    struct tb_layout layout;
    if (!rc)
        tb_layout_compute(&out, &layout, &err);
    return 0;
}
