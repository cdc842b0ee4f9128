/*
 * A device model: the hardware that a driver drives, in a shared library of yours.
 *
 * The library exports tidegate_device_open. `tidegate conform DRIVER.so --device MODEL.so` loads it,
 * and the driver finds the device on its bus. docs/guide/src/a-device-model.md describes it.
 *
 * - Every call comes from one thread at a time, and none from inside of another. The library starts
 *   no threads and reads no clock: it gets its time from now_ns, so that each run is the same run.
 * - Addresses of DMA are those that MmGetPhysicalAddress and the kernel give to the driver.
 * - The functions of the host are called from inside of a function of the device only.
 *
 * C11 and C++17, without another header of this folder.
 */
#ifndef TIDEGATE_DEVICE_H
#define TIDEGATE_DEVICE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of both tables. */
#define TIDEGATE_DEVICE_VERSION 1u
/* The most nodes of a device. */
#define TIDEGATE_DEVICE_NODES 48u
/* The answer of step: call again after a register was written. */
#define TIDEGATE_DEVICE_IDLE UINT64_MAX

/* What the host does for the device. */
typedef struct tidegate_device_host {
    uint32_t version;
    uint32_t bytes; /* of this table */
    void *context;  /* the first argument of each function */
    /* Local memory of the device: DMA reaches it at these bus addresses. The size is the machine's. */
    uint64_t local_memory_base;
    uint64_t local_memory_bytes;
    /* The time in nanoseconds. It passes between two calls of the device, and never during one. */
    uint64_t (*now_ns)(void *context);
    /* Copies memory. Returns 0, or -1 if a part of the range has no memory: bytes before it may have
     * been copied. There is no memory before the first reset. An aligned access of 8 bytes is one
     * access. */
    int32_t (*dma_read)(void *context, uint64_t address, void *to, uint64_t bytes);
    int32_t (*dma_write)(void *context, uint64_t address, const void *from, uint64_t bytes);
    /* Raises or lowers the line. The interrupt routine runs after the call of the device, and again
     * while the line is high. */
    void (*set_line)(void *context, int32_t is_high);
    /* Sends a message. One that was sent and is not served yet is not counted twice. */
    void (*send_message)(void *context, uint32_t message);
    /* Prints a line. */
    void (*log)(void *context, const char *text);
} tidegate_device_host;

/* A node: an engine that takes packets. */
typedef struct tidegate_device_node {
    uint32_t kind;   /* 0 3D, 1 compute, 2 copy, 3 video decode, 4 video encode */
    uint32_t traits; /* of docs/hardware.md, NODE_TRAITS */
} tidegate_device_node;

/* The device. The host sets version and bytes, and everything else to 0. */
typedef struct tidegate_device {
    uint32_t version;
    uint32_t bytes; /* of this table */
    void *context;  /* the first argument of each function */
    uint16_t vendor_id;
    uint16_t device_id;
    uint32_t revision;   /* 0 to 255 */
    uint32_t class_code; /* as 0x030200: a 3D controller; 0 is taken for that */
    uint32_t messages;   /* 0 for a level-triggered line, or 1, 2, 4, 8, 16 or 32 messages */
    /* Sizes of the ranges of registers, powers of two from 4 KiB to 2 GiB. The second may be 0. */
    uint64_t bar_bytes[2];
    uint64_t traits;            /* of docs/hardware.md, DEVICE_TRAITS */
    uint64_t refresh_period_ns; /* of its display; 0 without one, at least 1000 */
    uint32_t node_count;        /* 1 to TIDEGATE_DEVICE_NODES */
    uint32_t reserved;
    tidegate_device_node nodes[TIDEGATE_DEVICE_NODES];
    /* An aligned access of 1, 2, 4 or 8 bytes. */
    uint64_t (*read)(void *context, uint32_t bar, uint64_t offset, uint32_t bytes);
    void (*write)(void *context, uint32_t bar, uint64_t offset, uint32_t bytes, uint64_t value);
    /* Does a piece of the pending work. Returns the nanoseconds until the next call, 0 for at once,
     * or TIDEGATE_DEVICE_IDLE. A write of a register brings the next call forward. A call takes the
     * modelled time in which an engine decodes a packet. 65536 calls at once in a row are refused. */
    uint64_t (*step)(void *context);
    /* Sets everything to the state after power-on. Called before each DxgkDdiStartDevice. */
    void (*reset)(void *context);
    /* Frees the device. May be NULL. */
    void (*close)(void *context);
    /* Returns the submission fence id of the last packet that the node has completed. May be NULL:
     * then the clauses that compare reports with the device are not judged. */
    uint32_t (*completed)(void *context, uint32_t node);
} tidegate_device;

/* Fills in the device. Returns 0, or a number that the message of the failure names. The host's table
 * lives until close has returned. */
int32_t tidegate_device_open(const tidegate_device_host *host, tidegate_device *device);

#ifdef __cplusplus
}
#endif

#endif
