/*
 * The device model of drivers/model with one change, by its number in MISTAKE: descriptions that are
 * refused from 1, misuses of the host from 20, and what is allowed from 30.
 */
#define tidegate_device_open open_model
#include "../../../drivers/model/model.c"
#undef tidegate_device_open

int32_t tidegate_device_open(const tidegate_device_host *host, tidegate_device *device);

static const tidegate_device_host *outer;
static tidegate_device_host inner;
static uint64_t steps;

/* The second of two messages in the place of the line. */
static void send_for_line(void *context, int32_t is_high) {
    if (is_high) {
        outer->send_message(context, 1);
    }
}

static void send_and_set_line(void *context, int32_t is_high) {
    outer->set_line(context, is_high);
    outer->send_message(context, 0);
}

static void send_third(void *context, int32_t is_high) {
    send_for_line(context, is_high);
    outer->send_message(context, 2);
    outer->set_line(context, is_high);
}

static uint64_t never_idle(void *context) {
    (void)step(context);
    return 0;
}

static uint64_t counted_step(void *context) {
    uint64_t next = step(context);
    return ++steps < 10 ? 0 : next;
}

static uint64_t read_two_ranges(void *context, uint32_t bar, uint64_t offset, uint32_t bytes) {
    if (bar == 0) {
        return read_register(context, bar, offset, bytes);
    }
    return offset < 0x1000 ? offset + (bytes == 4 ? 4 : 1) : steps;
}

int32_t tidegate_device_open(const tidegate_device_host *host, tidegate_device *device) {
    outer = host;
    inner = *host;
    if (MISTAKE == 1) {
        return 7;
    }
    /* No bytes are none at any address. An address that is none has no bytes. */
    if (host->dma_read(host->context, 0, NULL, 0) != 0 ||
        host->dma_write(host->context, 0, NULL, 0) != 0 ||
        host->dma_read(host->context, 0, NULL, 8) == 0 ||
        host->dma_write(host->context, 0, NULL, 8) == 0) {
        return 8;
    }
    (void)open_model(&inner, device);
    switch (MISTAKE) {
    case 2:
        device->version = 2;
        break;
    case 3:
        device->bar_bytes[0] = 5000;
        break;
    case 4:
        device->bar_bytes[1] = 1ull << 32;
        break;
    case 5:
        device->messages = 3;
        break;
    case 6:
        device->node_count = 49;
        break;
    case 7:
        device->nodes[2].kind = 5;
        break;
    case 8:
        device->read = NULL;
        device->step = NULL;
        break;
    case 9:
        device->refresh_period_ns = 999;
        break;
    case 10:
        device->revision = 256;
        break;
    case 11:
        device->class_code = 0x1000000;
        break;
    case 20:
        inner.set_line = send_and_set_line;
        break;
    case 21:
        device->messages = 2;
        inner.set_line = send_third;
        break;
    case 23:
        device->step = never_idle;
        break;
    case 22:
        host->set_line(host->context, 1);
        host->send_message(host->context, 0);
        break;
    case 30:
        device->messages = 2;
        device->bar_bytes[1] = 8192;
        device->read = read_two_ranges;
        device->step = counted_step;
        inner.set_line = send_for_line;
        break;
    case 31:
        device->completed = NULL;
        device->close = NULL;
        break;
    default:
        break;
    }
    return 0;
}
