/*
 * Device models from YAML.  A key that is left out is not modelled; `source`
 * says where the numbers come from and is for people.
 */
#include "config/device.h"

#include <assert.h>

#include "text/yaml.h"
#include "text/yaml_open.h"

struct device_file {
    struct tb_device device;
    char source[TB_PATH_MAX];
};

#define FIELD(member) TB_YAML_FIELD(struct device_file, member)

/* Rates are above 0 and times 0 or more, as text/sizes.h reads them, so that the model never divides by 0. */
static const struct tb_yaml_key device_keys[] = {
    {"name", TB_YAML_TEXT, .required = true, FIELD(device.name)},
    {"source", TB_YAML_TEXT, FIELD(source)},
    {"read_bandwidth", TB_YAML_RATE, FIELD(device.read_bandwidth)},
    {"write_bandwidth", TB_YAML_RATE, FIELD(device.write_bandwidth)},
    {"read_latency", TB_YAML_TIME, FIELD(device.read_latency)},
    {"write_latency", TB_YAML_TIME, FIELD(device.write_latency)},
    {"sync_time", TB_YAML_TIME, FIELD(device.sync_time)},
    {"open_time", TB_YAML_TIME, FIELD(device.open_time)},
    {"metadata_time", TB_YAML_TIME, FIELD(device.metadata_time)},
    {"capacity", TB_YAML_SIZE, FIELD(device.capacity)},
    {"channels", TB_YAML_COUNT, FIELD(device.channels), .min = 1, .max = 4096},
    {0},
};

/* Keys in the configuration itself. One channel unless it says more: a device without channels would serve nothing. */
int tb_device_read_map(struct tb_yaml *yaml, yaml_node_t *node, const char *path, struct tb_device *out)
{
    struct device_file read = {.device.channels = 1};
    const struct tb_yaml_key map = {path, TB_YAML_MAP, .keys = device_keys};
    int rc = tb_yaml_value(yaml, &map, node, path, &read);
    if (!rc)
        *out = read.device;
    return rc;
}

/* `out` is changed only if the whole file is right. */
int tb_device_read(const char *file, struct tb_device *out, struct tb_error *err)
{
    struct device_file read = {.device.channels = 1};
    struct tb_yaml yaml;
    int rc = tb_yaml_open(&yaml, file, err);
    if (rc)
        return rc;
    rc = tb_yaml_read(&yaml, device_keys, &read);
    tb_yaml_close(&yaml);
    assert(rc || read.device.channels >= 1);
    if (!rc)
        *out = read.device;
    return rc;
}
