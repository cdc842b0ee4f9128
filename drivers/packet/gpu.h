/*
 * The software GPU as a driver sees it (crates/gpu-abi): registers of 64 bits, commands of its
 * mailbox, slots of a ring, commands in DMA buffers, entries of page tables.
 */
#ifndef PACKET_GPU_H
#define PACKET_GPU_H

/* Registers, by number. A register is at 8 times its number. "Takes" means that a read clears. */
#define REG_MAILBOX 0u         /* 16 words of a command */
#define REG_MAILBOX_RUN 32u    /* a write runs the command */
#define REG_MAILBOX_STATUS 33u /* 0 done, MAILBOX_PENDING, or an error */
#define REG_MAILBOX_RESULT 34u
#define REG_MAILBOX_RESULT_HIGH 35u
#define REG_INTERRUPT_CAUSE 40u /* takes the causes and lowers the line */
#define REG_SIGNALED_QUEUE 41u  /* takes the next signal: number of the queue plus 1, or 0 */
#define REG_SIGNALED_VA 42u
#define REG_CLOCK 43u           /* nanoseconds */
#define REG_FAULT_QUEUE 44u     /* number of the queue plus 1, 0 for no fault */
#define REG_FAULT_VA 45u
#define REG_FAULT_POSITION 46u /* submission fence id of a packet */
#define REG_FAULT_INFO 47u     /* takes the fault; the low byte is its kind */
#define REG_LOG_FLUSH 48u
#define REG_FAULT_FENCE 51u    /* progress value of the command buffer, 0 for none */
#define REG_COMPLETED_FENCE 64u /* + engine */
#define REG_NODE_TRAITS 128u /* + node */
#define REG_DEVICE_TRAITS 192u
#define REG_MONITORED_ENGINES 193u /* takes a bitmap of engines */
#define REG_IDLE_ENGINES 194u      /* takes a bitmap of engines */
#define REG_PREEMPTED_ENGINES 195u /* takes a bitmap of engines */
#define REG_SUSPENDED_QUEUE 196u /* takes the next queue: its number plus 1, or 0 */
#define REG_NODE_COUNT 197u
#define REG_LOCAL_MEMORY_BYTES 198u
#define REG_LOCAL_MEMORY_BASE 199u
#define REG_PREEMPTED_FENCE 256u     /* + engine */
#define REG_PREEMPTED_COMPLETED 320u /* + engine */
#define REG_DISPLAY_PERIOD 512u      /* nanoseconds; 0 without a display */
#define REG_DISPLAY_SIZE 513u        /* width, and height in the high half */
#define REG_DISPLAY_PITCH 514u       /* bytes of a row, and the format in the high half */
#define REG_DISPLAY_ADDRESS 515u     /* a write commits the surface */
#define REG_DISPLAY_CONTROL 516u
#define REG_DISPLAY_LATCHED 517u
#define REG_DISPLAY_FLIP 518u        /* bit 0: the next commit waits for the vertical sync */
#define REG_NODE_CLASS 448u          /* + node: 0 3D, 1 compute, 2 copy, 3 decode, 4 encode */

#define CAUSE_FENCE_SIGNALED 1u
#define CAUSE_FENCE_COLLAPSED 2u
#define CAUSE_FAULT 8u
#define CAUSE_MONITORED_SIGNALED 16u
#define CAUSE_ENGINE_IDLE 32u
#define CAUSE_DMA_PREEMPTED 64u
#define CAUSE_VSYNC 128u
#define DISPLAY_SCAN_OUT 1ull
#define DISPLAY_VSYNC_INTERRUPT 2ull
#define DISPLAY_AT_VSYNC 1ull
#define CAUSE_QUEUE_SUSPENDED 0x100000000000000u
#define CAUSE_ENGINE(engine) (1ull << (8 + (engine)))
#define NO_DEVICE (~0ull)

#define TRAIT_MONITORED_SHADOW 2u
#define TRAIT_NO_64BIT_ATOMICS 4u
#define TRAIT_NOT_IO_COHERENT 8u
#define NODE_NO_FENCE_WRITES 1u
#define FAULT_WRITE_UNMAPPED 2u
#define FAULT_READ_UNMAPPED 1u

#define MAX_NODES 48u

/* Mailbox */
#define MAILBOX_WORDS 16u
#define MAILBOX_PENDING (1ull << 32)
#define CMD_SET_ADDRESS_SPACE 1u /* space, root, GPU */
#define CMD_INVALIDATE_TLB 2u    /* space, GPU */
#define CMD_CREATE_QUEUE 3u
#define CMD_DESTROY_QUEUE 4u /* queue */
#define CMD_SUSPEND_QUEUE 5u /* queue; error MAILBOX_BUSY: it completes later */
#define CMD_RESUME_QUEUE 6u  /* queue */
#define CMD_CONNECT_DOORBELL 7u /* queue, global, secondary */
#define CMD_DISCONNECT_DOORBELL 8u /* queue */
#define CMD_KICK_QUEUE 9u    /* queue */
#define CMD_SET_LOG_BUFFER 10u /* queue, kind, header, payload, entries, notify every */
#define CMD_NOTIFY_FENCE 11u /* space, CurrentValue */
#define CMD_SET_SCHEDULING 13u /* queue, band, level, in process, quantum */
#define CMD_RESCAN_WAITS 14u
#define CMD_HOLD_ENGINES 17u
#define CMD_RELEASE_ENGINES 18u
#define CMD_POWER_ENGINE 30u /* engine, on, only if idle */
#define CMD_POWER_DEVICE 31u /* on, only if idle */
#define CMD_REPORT_IDLE 32u  /* engine, nanoseconds */
#define CMD_SET_BANDS 33u    /* four quanta, percent of the normal band */
#define CMD_PREEMPT_NODE 40u /* engine, preemption fence id */
#define CMD_RESET_ENGINE 41u /* engine; results: last packet, queue that was cut off plus 1 */
#define CMD_QUERY_ENGINE 42u /* engine; result: bit 0 if it responds */
#define CMD_CONTINUE 43u     /* ticket, at once */
#define MAILBOX_NO_SUCH_QUEUE 2u
#define MAILBOX_BUSY 7u
#define QUEUE_KIND_USER 0u
#define QUEUE_KIND_KERNEL 1u
#define QUEUE_KIND_NODE 2u
#define BAND_NORMAL 1u

/* A ring: slots of 8 words, and a control area with the two pointers. */
#define SLOT_WORDS 8u
#define CONTROL_BYTES 128u
#define CONTROL_WRITE 0u
#define CONTROL_READ 8u
#define SLOT_BYTES 64u
#define MAX_RING_SLOTS 1048576u
#define MAX_COMMAND_BYTES 16777216u
#define SLOT_EXECUTE (1ull | 1ull << 8)
#define SLOT_EXECUTE_DMA (2ull | 1ull << 8)
#define DMA_RESUME 1ull
#define DMA_CONTEXT_SWITCH 2ull
#define DMA_PHYSICAL 4ull

/* Commands of DMA buffers: the opcode, and the words of the command above it. */
#define GPU_COPY (1ull | 4ull << 16) /* source, destination, bytes */
#define GPU_FILL (2ull | 4ull << 16) /* destination, bytes, value */
#define COMMAND_BYTES 32u
#define OPCODE_COPY 1u
#define OPCODE_FILL 2u
#define OPCODE_DISPATCH 3u
#define OPCODE_DRAW 4u
#define OPCODE_WRITE_VALUE 6u
#define OPCODE_LABEL 7u
#define OPCODE_DISPATCH_INDIRECT 10u
#define OPCODE_RESOLVE 11u
#define OPCODE_TIMESTAMP 12u
#define OPCODE_PREDICATE 13u
#define OPCODE_WAIT_FENCE 15u
#define GPU_LABEL (7ull | 2ull << 16) /* number of a name plus 1 */
#define LABEL_BYTES 16u

/* A doorbell is a page in the large memory range: queue number times its bytes. */
#define DOORBELL_BYTES 4096u

/* Page tables: 4 levels of 512 entries, pages of 4 KiB. */
#define TABLE_LEVELS 4u
#define TABLE_INDEX_BITS 9u
#define TABLE_BYTES 4096u
#define PTE_VALID 1ull
#define PTE_WRITABLE 2ull
#define PTE_COHERENT 8ull

#endif
