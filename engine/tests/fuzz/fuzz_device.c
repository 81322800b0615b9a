/* A device file. */
#include "fuzz.h"

#include "config/config.h"
#include "config/device.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tb_device out;
    struct tb_error err = {""};
    char path[FUZZ_PATH];
    int fd = fuzz_file(data, size, path);
    int rc = tb_device_read(path, &out, &err);
    (void)rc;
    close(fd);
    return 0;
}
