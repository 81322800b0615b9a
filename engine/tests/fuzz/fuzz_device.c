/* A device file. */
#include "fuzz.h"

#include "config/config.h"
#include "config/device.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tb_device out;
    struct tb_error err = {""};
    int rc = tb_device_read(fuzz_file(data, size), &out, &err);
    (void)rc;
    return 0;
}
