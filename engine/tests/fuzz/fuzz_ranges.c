/* Files of byte ranges: dispersion units where the first byte is even, else a schedule. */
#include "fuzz.h"

#include "config/byte_ranges.h"
#include "instance/schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tb_config config;
    struct tb_error err = {""};
    struct tb_unit_range *ranges = NULL;
    struct tb_schedule schedule;
    if (!size)
        return 0;
    const char *path = fuzz_file(data + 1, size - 1);
    snprintf(config.pfs.path, sizeof(config.pfs.path), "/pfs");
    snprintf(config.placement.units, sizeof(config.placement.units), "%s", path);
    snprintf(config.organizer.schedule, sizeof(config.organizer.schedule), "%s", path);
    if (data[0] % 2 == 0 && tb_units_read(&config, &ranges, &err) == 0)
        free(ranges);
    else if (data[0] % 2 && tb_schedule_read(&config, &schedule, &err) == 0)
        tb_schedule_free(&schedule);
    return 0;
}
