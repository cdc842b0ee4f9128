/*
 * A device model: a packet engine with the registers of docs/hardware.md that drivers/packet and
 * drivers/patched use. A copy of it is a start for a model of other hardware.
 *
 *   cc -std=c11 -fPIC -shared -I include/wddm drivers/model/model.c -o model.so
 *   tidegate conform ./driver.so --device ./model.so
 *
 * It has three nodes, rings of packets, four levels of page tables, preemption between packets,
 * faults, hangs and resets. It has no queues of processes, no native fences and no display. Of the
 * programs it runs fill_pattern and saxpy. Any other command is a fault of the packet.
 */
#include <tidegate_device.h>
#include <stdlib.h>
#include <string.h>
#include "../packet/gpu.h"

#define NODES 3u
#define BAR_BYTES 0x10000u
#define SPACES 4096u
#define FAULTS 16u
#define PIECE 4096u
#define FAULT_BAD_PACKET 3u
#define CAUSE_DMA_COMPLETED 4u
#define MAILBOX_MALFORMED 1u
#define OPCODE_TIMED 5u
#define OPCODE_HANG 8u
#define OPCODE_GAP 9u
#define OPCODE_BARRIER 14u
#define PROGRAM_SAXPY 1u
#define PROGRAM_FILL_PATTERN 9u
#define PAGE 4096u
#define ADDRESS_BITS 0x000FFFFFFFFFF000u
#define BYTES_PER_NS 32u

/* A packet that has begun. */
typedef struct packet {
    uint64_t at;
    uint64_t left;
    uint32_t space;
    uint32_t fence;
    int is_physical;
} packet;

typedef struct node {
    uint64_t ring;
    uint64_t slots;
    uint64_t control;
    uint64_t read;
    int has_packet;
    packet packet;
    uint64_t busy_until;
    int is_hung;
    uint64_t completed;
    /* A request of preemption: the write pointer at that time. */
    int is_preempting;
    uint64_t drop_to;
    uint64_t preempted_fence;
    uint64_t preempted_completed;
} node;

typedef struct fault {
    uint64_t queue;
    uint64_t address;
    uint64_t position;
    uint64_t kind;
} fault;

typedef struct gpu {
    const tidegate_device_host *host;
    uint64_t mailbox[MAILBOX_WORDS];
    uint64_t status;
    uint64_t result;
    uint64_t causes;
    uint64_t preempted;
    uint64_t holds;
    uint64_t off;    /* a bit for each engine without power */
    int is_asleep;   /* the device has no power */
    uint64_t roots[SPACES];
    fault faults[FAULTS];
    unsigned fault_count;
    node nodes[NODES];
} gpu;

/* Memory */

static int load(gpu *g, uint64_t at, void *to, uint64_t bytes) {
    return g->host->dma_read(g->host->context, at, to, bytes) == 0;
}

static int store(gpu *g, uint64_t at, const void *from, uint64_t bytes) {
    return g->host->dma_write(g->host->context, at, from, bytes) == 0;
}

/* Finds the bus address of an address in a packet. */
static int translate(gpu *g, const packet *p, uint64_t address, int writes, uint64_t *at) {
    uint64_t entry = g->roots[p->space] | PTE_VALID;
    unsigned level;
    if (p->is_physical) {
        *at = address;
        return 1;
    }
    if (g->roots[p->space] == 0 || address >> 48 != 0) {
        return 0;
    }
    for (level = TABLE_LEVELS; level > 0; level--) {
        uint64_t index = address >> (12 + TABLE_INDEX_BITS * (level - 1)) & 511;
        if (!load(g, (entry & ADDRESS_BITS) + 8 * index, &entry, 8) || !(entry & PTE_VALID)) {
            return 0;
        }
    }
    *at = (entry & ADDRESS_BITS) | (address & (PAGE - 1));
    return !writes || (entry & PTE_WRITABLE) != 0;
}

/* Reads or writes memory of a packet, page by page. Returns 0 and the address of a fault. */
static int access(
    gpu *g, const packet *p, uint64_t address, uint8_t *bytes, uint64_t count, int writes,
    uint64_t *faulted) {
    while (count > 0) {
        uint64_t here = PAGE - address % PAGE, at;
        here = here < count ? here : count;
        *faulted = address;
        if (!translate(g, p, address, writes, &at) ||
            !(writes ? store(g, at, bytes, here) : load(g, at, bytes, here))) {
            return 0;
        }
        address += here;
        bytes += here;
        count -= here;
    }
    return 1;
}

/* Interrupts */

static void raise(gpu *g, uint64_t cause) {
    g->causes |= cause;
    g->host->set_line(g->host->context, 1);
}

static void record_fault(gpu *g, unsigned number, uint64_t address, uint64_t kind) {
    node *n = &g->nodes[number];
    if (g->fault_count < FAULTS) {
        fault *f = &g->faults[g->fault_count++];
        f->queue = number + 1;
        f->address = address;
        f->position = n->packet.fence;
        f->kind = kind;
    }
    raise(g, CAUSE_FAULT);
}

/* Packets */

static uint64_t written(gpu *g, const node *n) {
    uint64_t value = n->read;
    (void)load(g, n->control + 8 * CONTROL_WRITE, &value, 8);
    return value;
}

/* Frees the slots before `to`. */
static void free_slots(gpu *g, node *n, uint64_t to) {
    n->read = to;
    n->has_packet = 0;
    (void)store(g, n->control + 8 * CONTROL_READ, &n->read, 8);
}

static void answer_preemption(gpu *g, unsigned number) {
    node *n = &g->nodes[number];
    if (n->drop_to > n->read) {
        free_slots(g, n, n->drop_to);
    }
    n->is_preempting = 0;
    n->preempted_completed = n->completed;
    g->preempted |= 1ull << number;
    raise(g, CAUSE_DMA_PREEMPTED);
}

static void end_packet(gpu *g, unsigned number) {
    node *n = &g->nodes[number];
    free_slots(g, n, n->read + 1);
    n->completed = n->packet.fence;
    raise(g, CAUSE_DMA_COMPLETED | CAUSE_ENGINE(number));
}

static void fail_packet(gpu *g, unsigned number, uint64_t address, uint64_t kind) {
    record_fault(g, number, address, kind);
    free_slots(g, &g->nodes[number], g->nodes[number].read + 1);
}

/* Takes the packet in the next slot. */
static void begin_packet(gpu *g, unsigned number) {
    node *n = &g->nodes[number];
    uint64_t slot[SLOT_WORDS];
    packet *p = &n->packet;
    memset(p, 0, sizeof(*p));
    if (!load(g, n->ring + n->read % n->slots * SLOT_BYTES, slot, sizeof(slot))) {
        fail_packet(g, number, n->ring, FAULT_BAD_PACKET);
        return;
    }
    p->fence = (uint32_t)(slot[0] >> 32);
    if ((slot[0] & 0xFFFF) != SLOT_EXECUTE_DMA || slot[2] >> 32 >= SPACES) {
        fail_packet(g, number, slot[1], FAULT_BAD_PACKET);
        return;
    }
    p->at = slot[1];
    p->left = (uint32_t)slot[2];
    p->space = (uint32_t)(slot[2] >> 32);
    p->is_physical = (slot[3] >> 32 & DMA_PHYSICAL) != 0;
    n->has_packet = 1;
}

/* Copies, or fills with the pattern of `fill` if there is one. Returns 0 at a fault. */
static int transfer(
    gpu *g, const packet *p, const uint64_t *source, const uint32_t *fill, uint64_t to,
    uint64_t bytes, uint64_t *faulted, int *writes) {
    uint8_t piece[PIECE];
    uint64_t done = 0, i;
    while (done < bytes) {
        uint64_t count = bytes - done < PIECE ? bytes - done : PIECE;
        *writes = 0;
        if (source != NULL && !access(g, p, *source + done, piece, count, 0, faulted)) {
            return 0;
        }
        for (i = 0; source == NULL && i < count; i += 4) {
            uint32_t value = fill[0] + (uint32_t)((done + i) / 4) * fill[1];
            memcpy(piece + i, &value, 4);
        }
        *writes = 1;
        if (!access(g, p, to + done, piece, count, 1, faulted)) {
            return 0;
        }
        done += count;
    }
    return 1;
}

/* y = a * x + y for n numbers. Returns 0 at a fault. */
static int saxpy(
    gpu *g, const packet *p, uint64_t x_at, uint64_t y_at, uint64_t n, uint32_t a_bits,
    uint64_t *faulted, int *writes) {
    float a, x, y;
    uint64_t done;
    memcpy(&a, &a_bits, 4);
    for (done = 0; done < 4 * n; done += 4) {
        *writes = 0;
        if (!access(g, p, x_at + done, (uint8_t *)&x, 4, 0, faulted) ||
            !access(g, p, y_at + done, (uint8_t *)&y, 4, 0, faulted)) {
            return 0;
        }
        y += a * x;
        *writes = 1;
        if (!access(g, p, y_at + done, (uint8_t *)&y, 4, 1, faulted)) {
            return 0;
        }
    }
    return 1;
}

/* Runs the next command. */
static void run_command(gpu *g, unsigned number) {
    node *n = &g->nodes[number];
    packet *p = &n->packet;
    uint64_t words[64], now = g->host->now_ns(g->host->context), faulted = p->at, count = 0;
    uint32_t fill[2] = {0, 0};
    int writes = 0, ok = access(g, p, p->at, (uint8_t *)words, 8, 0, &faulted);
    if (!ok) {
        fail_packet(g, number, faulted, FAULT_READ_UNMAPPED);
        return;
    }
    count = 8 * (words[0] >> 16 & 0xFFFF);
    if (count == 0 || count > sizeof(words) || count > p->left) {
        fail_packet(g, number, p->at, FAULT_BAD_PACKET);
        return;
    }
    if (!access(g, p, p->at, (uint8_t *)words, count, 0, &faulted)) {
        fail_packet(g, number, faulted, FAULT_READ_UNMAPPED);
        return;
    }
    switch (words[0] & 0xFFFF) {
    case OPCODE_COPY:
    case OPCODE_RESOLVE:
        ok = transfer(g, p, &words[1], NULL, words[2], words[3], &faulted, &writes);
        n->busy_until = now + words[3] / BYTES_PER_NS;
        break;
    case OPCODE_FILL:
        fill[0] = (uint32_t)words[3];
        ok = transfer(g, p, NULL, fill, words[1], words[2], &faulted, &writes);
        n->busy_until = now + words[2] / BYTES_PER_NS;
        break;
    case OPCODE_DISPATCH:
        if (count == 8 * 7 && (uint32_t)words[1] == PROGRAM_FILL_PATTERN) {
            /* dst, n, first, step */
            fill[0] = (uint32_t)words[5];
            fill[1] = (uint32_t)words[6];
            ok = transfer(g, p, NULL, fill, words[3], 4 * words[4], &faulted, &writes);
            n->busy_until = now + words[4];
        } else if (count == 8 * 7 && (uint32_t)words[1] == PROGRAM_SAXPY) {
            /* x, y, n, a */
            ok = saxpy(
                g, p, words[3], words[4], words[5], (uint32_t)words[6], &faulted, &writes);
            n->busy_until = now + words[5];
        } else {
            fail_packet(g, number, p->at, FAULT_BAD_PACKET);
            return;
        }
        break;
    case OPCODE_WRITE_VALUE:
        writes = 1;
        ok = access(g, p, words[1], (uint8_t *)&words[2], 8, 1, &faulted);
        break;
    case OPCODE_TIMESTAMP:
        writes = 1;
        ok = access(g, p, words[1], (uint8_t *)&now, 8, 1, &faulted);
        break;
    case OPCODE_TIMED:
    case OPCODE_GAP:
        n->busy_until = now + words[1];
        break;
    case OPCODE_HANG:
        n->is_hung = 1;
        break;
    case OPCODE_LABEL:
    case OPCODE_BARRIER:
        break;
    default:
        fail_packet(g, number, p->at, FAULT_BAD_PACKET);
        return;
    }
    if (!ok) {
        fail_packet(g, number, faulted, writes ? FAULT_WRITE_UNMAPPED : FAULT_READ_UNMAPPED);
        return;
    }
    p->at += count;
    p->left -= count;
}

/* Does a piece of the work of a node. Returns whether there was any. */
static int run_node(gpu *g, unsigned number) {
    node *n = &g->nodes[number];
    if (n->slots == 0 || n->is_hung || n->busy_until > g->host->now_ns(g->host->context)) {
        return 0;
    }
    if (n->has_packet && n->packet.left > 0) {
        run_command(g, number);
    } else if (n->has_packet) {
        end_packet(g, number);
    } else if (n->is_preempting) {
        answer_preemption(g, number);
    } else if (n->read != written(g, n)) {
        begin_packet(g, number);
    } else {
        return 0;
    }
    return 1;
}

/* Power: queues keep their state, and go on when the engine has power again. */

static int has_work(gpu *g, unsigned number) {
    node *n = &g->nodes[number];
    return n->slots != 0 && (n->has_packet || n->is_preempting || n->read != written(g, n));
}

/* Sets the power of the engine first, or of the device if last is another one. */
static void set_power(gpu *g, unsigned first, unsigned last, int is_on, int only_if_idle) {
    unsigned number;
    for (number = first; !is_on && only_if_idle && number <= last; number++) {
        if (has_work(g, number)) {
            g->status = MAILBOX_BUSY;
            return;
        }
    }
    if (first != last) {
        g->is_asleep = !is_on;
    } else if (is_on) {
        g->off &= ~(1ull << first);
    } else {
        g->off |= 1ull << first;
    }
}

static uint64_t step(void *context) {
    gpu *g = (gpu *)context;
    uint64_t now = g->host->now_ns(g->host->context), next = TIDEGATE_DEVICE_IDLE;
    unsigned number;
    int worked = 0;
    for (number = 0; g->holds == 0 && !g->is_asleep && number < NODES; number++) {
        node *n = &g->nodes[number];
        if (g->off >> number & 1) {
            continue;
        }
        worked |= run_node(g, number);
        if (n->busy_until > now && n->busy_until - now < next) {
            next = n->busy_until - now;
        }
    }
    return worked ? 0 : next;
}

/* Registers */

static void run_mailbox(gpu *g) {
    const uint64_t *words = g->mailbox;
    node *n = words[1] < NODES ? &g->nodes[words[1]] : &g->nodes[0];
    g->status = 0;
    g->result = 0;
    switch (words[0]) {
    case CMD_SET_ADDRESS_SPACE:
        if (words[1] < SPACES) {
            g->roots[words[1]] = words[2];
        } else {
            g->status = MAILBOX_MALFORMED;
        }
        break;
    case CMD_CREATE_QUEUE:
        if (words[2] != QUEUE_KIND_NODE || words[1] >= NODES) {
            g->status = MAILBOX_MALFORMED;
            break;
        }
        memset(n, 0, sizeof(*n));
        n->ring = words[4];
        n->slots = words[5];
        n->control = words[6];
        g->result = words[1]; /* the number of the queue is that of its node */
        break;
    case CMD_DESTROY_QUEUE:
        n->slots = 0;
        break;
    case CMD_PREEMPT_NODE:
        n->is_preempting = 1;
        n->drop_to = written(g, n);
        n->preempted_fence = words[2];
        break;
    case CMD_RESET_ENGINE:
        g->result = n->has_packet ? n->packet.fence : n->completed;
        free_slots(g, n, written(g, n));
        n->is_hung = 0;
        n->is_preempting = 0;
        n->busy_until = 0;
        break;
    case CMD_QUERY_ENGINE:
        g->result = !n->is_hung;
        break;
    case CMD_HOLD_ENGINES:
        g->holds++;
        break;
    case CMD_RELEASE_ENGINES:
        g->holds -= g->holds > 0;
        break;
    case CMD_POWER_ENGINE:
        if (words[1] < NODES) {
            set_power(g, (unsigned)words[1], (unsigned)words[1], words[2] != 0, words[3] != 0);
        } else {
            g->status = MAILBOX_MALFORMED;
        }
        break;
    case CMD_POWER_DEVICE:
        set_power(g, 0, NODES - 1, words[1] != 0, words[2] != 0);
        break;
    case CMD_KICK_QUEUE: /* the write of the command calls step */
    case CMD_INVALIDATE_TLB:
        break;
    default:
        g->status = MAILBOX_MALFORMED;
    }
}

static uint64_t take(uint64_t *value) {
    uint64_t taken = *value;
    *value = 0;
    return taken;
}

static uint64_t read_fault(gpu *g, uint64_t number) {
    fault first = g->faults[0];
    if (g->fault_count == 0) {
        return 0;
    }
    switch (number) {
    case REG_FAULT_QUEUE:
        return first.queue;
    case REG_FAULT_VA:
        return first.address;
    case REG_FAULT_POSITION:
        return first.position;
    default:
        g->fault_count--;
        memmove(g->faults, g->faults + 1, sizeof(g->faults) - sizeof(g->faults[0]));
        return first.kind;
    }
}

static uint64_t read_register(void *context, uint32_t bar, uint64_t offset, uint32_t bytes) {
    gpu *g = (gpu *)context;
    uint64_t number = offset / 8;
    (void)bar;
    (void)bytes;
    if (number >= REG_NODE_CLASS && number < REG_NODE_CLASS + NODES) {
        return number - REG_NODE_CLASS;
    }
    if (number >= REG_COMPLETED_FENCE && number < REG_COMPLETED_FENCE + NODES) {
        return g->nodes[number - REG_COMPLETED_FENCE].completed;
    }
    if (number >= REG_PREEMPTED_FENCE && number < REG_PREEMPTED_FENCE + NODES) {
        return g->nodes[number - REG_PREEMPTED_FENCE].preempted_fence;
    }
    if (number >= REG_PREEMPTED_COMPLETED && number < REG_PREEMPTED_COMPLETED + NODES) {
        return g->nodes[number - REG_PREEMPTED_COMPLETED].preempted_completed;
    }
    switch (number) {
    case REG_MAILBOX_STATUS:
        return g->status;
    case REG_MAILBOX_RESULT:
        return g->result;
    case REG_INTERRUPT_CAUSE:
        g->host->set_line(g->host->context, 0);
        return take(&g->causes);
    case REG_PREEMPTED_ENGINES:
        return take(&g->preempted);
    case REG_CLOCK:
        return g->host->now_ns(g->host->context);
    case REG_FAULT_QUEUE:
    case REG_FAULT_VA:
    case REG_FAULT_POSITION:
    case REG_FAULT_INFO:
        return read_fault(g, number);
    case REG_NODE_COUNT:
        return NODES;
    case REG_LOCAL_MEMORY_BASE:
        return g->host->local_memory_base;
    case REG_LOCAL_MEMORY_BYTES:
        return g->host->local_memory_bytes;
    default:
        return 0;
    }
}

static void write_register(
    void *context, uint32_t bar, uint64_t offset, uint32_t bytes, uint64_t value) {
    gpu *g = (gpu *)context;
    uint64_t number = offset / 8;
    (void)bar;
    (void)bytes;
    if (number < MAILBOX_WORDS) {
        g->mailbox[number] = value;
    } else if (number == REG_MAILBOX_RUN) {
        run_mailbox(g);
    } else if (number >= REG_COMPLETED_FENCE && number < REG_COMPLETED_FENCE + NODES) {
        g->nodes[number - REG_COMPLETED_FENCE].completed = value;
    }
}

/* The device */

static void reset(void *context) {
    gpu *g = (gpu *)context;
    const tidegate_device_host *host = g->host;
    memset(g, 0, sizeof(*g));
    g->host = host;
}

static uint32_t completed(void *context, uint32_t number) {
    return (uint32_t)((gpu *)context)->nodes[number].completed;
}

int32_t tidegate_device_open(const tidegate_device_host *host, tidegate_device *device) {
    gpu *g;
    unsigned number;
    if (host->version != TIDEGATE_DEVICE_VERSION) {
        return 1;
    }
    g = (gpu *)calloc(1, sizeof(*g));
    if (g == NULL) {
        return 2;
    }
    g->host = host;
    device->context = g;
    device->vendor_id = 0x1234;
    device->device_id = 0x0001;
    device->bar_bytes[0] = BAR_BYTES;
    device->node_count = NODES;
    for (number = 0; number < NODES; number++) {
        device->nodes[number].kind = number;
    }
    device->read = read_register;
    device->write = write_register;
    device->step = step;
    device->reset = reset;
    device->close = free;
    device->completed = completed;
    return 0;
}
