/*
 * The model of a storage device: what it costs, in the terms of a data sheet.
 * Read from a file of configs/devices, kept in the region, applied by chain/model/device_clock.c.
 * A model may only slow things down; a zero rate or time means "not modelled".
 */
#ifndef TB_DEVICE_H
#define TB_DEVICE_H

#include <stdint.h>

#define TB_DEVICE_NAME_MAX 64

struct tb_device {
    char name[TB_DEVICE_NAME_MAX];
    double read_bandwidth;  /* bytes per second, of the whole device */
    double write_bandwidth; /* bytes per second, of the whole device */
    double read_latency;    /* seconds per read operation */
    double write_latency;   /* seconds per write operation */
    double sync_time;       /* seconds the device is busy per sync of a file with unsynced writes */
    double open_time;       /* seconds per open that creates, on the metadata server's clock */
    double metadata_time;   /* seconds per other metadata operation (open, stat, unlink, rename, mkdir) */
    uint64_t capacity;      /* bytes; 0: as the medium */
    uint32_t channels;      /* operations served at once: latency is hidden by this many (>= 1) */
};

struct tb_error;
struct tb_yaml;
struct yaml_node_s;
/* Read a device file; 0, or -EINVAL / -errno with `err` set. */
int tb_device_read(const char *file, struct tb_device *out, struct tb_error *err);

/* The keys of a device file, given in place. */
int tb_device_read_map(struct tb_yaml *yaml, struct yaml_node_s *node, const char *path, struct tb_device *out);

#endif
