// SPDX-License-Identifier: MIT OR Apache-2.0
// AF_XDP by the kernel's headers and system calls alone: what port xdp is measured against, the
// packets that both receive, and strangers that are in its way. Programs for the kernel are written
// as instructions, so that nothing has to be loaded from a file.
//
//   rings generate DEVICE CPU COUNT BATCH NONCE STREAM SIZE  test frames without a pause
//   rings send DEVICE CPU COUNT CYCLE_NS NONCE STREAM SIZE   the same by the clock, from a socket
//   rings drop DEVICE CPU plain|hints                        takes packets and drops them unread
//   rings delay DEVICE CPU spin|poll COUNT                   the loop of AF_XDP-interaction
//   rings hold DEVICE QUEUE                                  only a socket, until killed
//   rings attach DEVICE native|generic                       a program that passes all,
//                                                            until killed
//
// Those that wait for packets print `ready` when they can receive.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// FRAMES of FRAME bytes for each queue, as port xdp has them. HINT is the id of the hint.
enum { FRAMES = 4096, FRAME = 4096, COMPLETED = 64, BATCH = 64, QUEUES = 64, ETHERTYPE = 0x88b5, HINT = 7 };
enum { ETHERNET = 14, HEAD = 24, NONCE_AT = 8, SEQ_AT = 16, CHECK_AT = 20 };
static const uint64_t MAGIC = 0x74647902, TEST = 1, MIX = 0x9e3779b97f4a7c15;

static void die(const char *what) {
    fprintf(stderr, "rings: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static unsigned device(const char *name) {
    unsigned index = if_nametoindex(name);
    if (!index) die(name);
    return index;
}

static void pin(const char *cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(atoi(cpu), &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus)) die("sched_setaffinity");
}

static void ready(void) {
    puts("ready");
    fflush(stdout);
}

// ---- the kernel's programs ----

#define INSN(c, d, s, o, i) ((struct bpf_insn){.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i)})
#define MOV(d, s) INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define SET(d, i) INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define ALU(op, d, s) INSN(BPF_ALU64 | (op) | BPF_X, d, s, 0, 0)
#define ALU_K(op, d, i) INSN(BPF_ALU64 | (op) | BPF_K, d, 0, 0, i)
#define BE32(d) INSN(BPF_ALU | BPF_END | BPF_TO_BE, d, 0, 0, 32)
#define LOAD(size, d, s, o) INSN(BPF_LDX | (size) | BPF_MEM, d, s, o, 0)
#define STORE(size, d, s, o) INSN(BPF_STX | (size) | BPF_MEM, d, s, o, 0)
#define STORE_K(size, d, o, i) INSN(BPF_ST | (size) | BPF_MEM, d, 0, o, i)
#define IF(op, d, s, o) INSN(BPF_JMP | (op) | BPF_X, d, s, o, 0)
#define IF_K(op, d, i, o) INSN(BPF_JMP | (op) | BPF_K, d, 0, o, i)
#define CALL(f) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, f)
#define EXIT INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
// Two instructions each.
#define WIDE(d, s, low, high) INSN(BPF_LD | BPF_DW | BPF_IMM, d, s, 0, low), INSN(0, 0, 0, 0, high)
#define NUMBER(d, v) WIDE(d, 0, (int)(uint32_t)(v), (int)((uint64_t)(v) >> 32))
#define MAP(d, fd) WIDE(d, BPF_PSEUDO_MAP_FD, fd, 0)
#define CELL(d, fd) WIDE(d, BPF_PSEUDO_MAP_VALUE, fd, 0)

static int bpf(int command, union bpf_attr *attr) { return syscall(SYS_bpf, command, attr, sizeof *attr); }

static int make_map(int type, unsigned value_size, unsigned entries) {
    union bpf_attr attr = {0};
    attr.map_type = type, attr.key_size = 4, attr.value_size = value_size, attr.max_entries = entries;
    int fd = bpf(BPF_MAP_CREATE, &attr);
    if (fd < 0) die("a map");
    return fd;
}

static int load(const struct bpf_insn *instructions, unsigned count) {
    static char log[1 << 16];
    union bpf_attr attr = {0};
    attr.prog_type = BPF_PROG_TYPE_XDP, attr.insns = (uintptr_t)instructions, attr.insn_cnt = count;
    attr.license = (uintptr_t) "Dual BSD/GPL";
    attr.log_buf = (uintptr_t)log, attr.log_size = sizeof log, attr.log_level = 1;
    int fd = bpf(BPF_PROG_LOAD, &attr);
    if (fd < 0) {
        fputs(log, stderr);
        die("a program");
    }
    return fd;
}

static void attach(int program, unsigned index, unsigned flags) {
    union bpf_attr attr = {0};
    attr.link_create.prog_fd = program, attr.link_create.target_ifindex = index;
    attr.link_create.attach_type = BPF_XDP, attr.link_create.flags = flags;
    // Attached as long as this process lives.
    if (bpf(BPF_LINK_CREATE, &attr) < 0) die("attaching a program");
}

// To the socket of the packet's queue.
static int redirecting(int sockets) {
    const struct bpf_insn program[] = {
        LOAD(BPF_W, 2, 1, offsetof(struct xdp_md, rx_queue_index)), MAP(1, sockets), SET(3, XDP_PASS),
        CALL(BPF_FUNC_redirect_map), EXIT,
    };
    return load(program, sizeof program / sizeof *program);
}

// The same with a hint before each test frame. After the hint's time it does what tardy's program
// does, so that a difference is the loop's.
static int stamping(int sockets) {
    enum { PASS = 32 };
    const struct bpf_insn program[] = {
        MOV(6, 1), LOAD(BPF_W, 8, 6, offsetof(struct xdp_md, rx_queue_index)),
        LOAD(BPF_W, 2, 6, offsetof(struct xdp_md, data)), LOAD(BPF_W, 3, 6, offsetof(struct xdp_md, data_end)),
        MOV(4, 2), ALU_K(BPF_ADD, 4, ETHERNET), IF(BPF_JGT, 4, 3, PASS - 7), LOAD(BPF_H, 4, 2, ETHERNET - 2),
        IF_K(BPF_JNE, 4, htons(ETHERTYPE), PASS - 9), CALL(BPF_FUNC_ktime_get_tai_ns), MOV(7, 0),
        CALL(BPF_FUNC_get_smp_processor_id), MOV(9, 0), MOV(1, 6), SET(2, -20), CALL(BPF_FUNC_xdp_adjust_meta),
        IF_K(BPF_JNE, 0, 0, PASS - 17), LOAD(BPF_W, 1, 6, offsetof(struct xdp_md, data)),
        LOAD(BPF_W, 2, 6, offsetof(struct xdp_md, data_meta)), MOV(3, 2), ALU_K(BPF_ADD, 3, 20),
        IF(BPF_JGT, 3, 1, PASS - 22), STORE(BPF_DW, 2, 7, 0), STORE(BPF_W, 2, 9, 8), STORE(BPF_W, 2, 8, 12),
        STORE_K(BPF_W, 2, 16, HINT), MAP(1, sockets), MOV(2, 8), SET(3, XDP_PASS), CALL(BPF_FUNC_redirect_map),
        EXIT, SET(0, XDP_PASS), EXIT,
    };
    return load(program, sizeof program / sizeof *program);
}

// Makes test frames: writes the next number and the check of the head into each, counts in `cell`,
// and sends it out of a device. `hash` is that of the head's first two words.
static int generating(int cell, uint64_t hash, unsigned index) {
    enum { DROP = 32 };
    const struct bpf_insn program[] = {
        LOAD(BPF_W, 2, 1, offsetof(struct xdp_md, data)), LOAD(BPF_W, 3, 1, offsetof(struct xdp_md, data_end)),
        MOV(4, 2), ALU_K(BPF_ADD, 4, ETHERNET + HEAD), IF(BPF_JGT, 4, 3, DROP - 5), CELL(1, cell),
        LOAD(BPF_DW, 4, 1, 0), MOV(5, 4), ALU_K(BPF_ADD, 5, 1), STORE(BPF_DW, 1, 5, 0), MOV(5, 4), BE32(5),
        STORE(BPF_W, 2, 5, ETHERNET + SEQ_AT), NUMBER(5, hash), ALU(BPF_XOR, 5, 4), NUMBER(0, MIX),
        ALU(BPF_MUL, 5, 0), MOV(0, 5), ALU_K(BPF_RSH, 0, 32), ALU(BPF_XOR, 5, 0), MOV(0, 5), ALU_K(BPF_RSH, 0, 32),
        ALU(BPF_XOR, 5, 0), BE32(5), STORE(BPF_W, 2, 5, ETHERNET + CHECK_AT), SET(1, (int)index), SET(2, 0),
        CALL(BPF_FUNC_redirect), EXIT, SET(0, XDP_DROP), EXIT,
    };
    return load(program, sizeof program / sizeof *program);
}

// ---- test frames, as crates/model/src/frame.rs has them ----

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * MIX;
    return hash ^ hash >> 32;
}

static void put(uint8_t *to, uint64_t value, int bytes) {
    for (int n = bytes; n-- > 0; value >>= 8) to[n] = (uint8_t)value;
}

// All that the frames of a stream have in common, by NONCE STREAM SIZE; returns its hash.
static uint64_t head(uint8_t *frame, char **args) {
    uint64_t nonce = strtoull(args[0], NULL, 0), stream = atoi(args[1]), size = atoi(args[2]);
    uint64_t first = MAGIC << 32 | TEST << 24 | stream << 16 | size;
    static const uint8_t macs[12] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
    memcpy(frame, macs, sizeof macs);
    put(frame + sizeof macs, ETHERTYPE, 2);
    put(frame + ETHERNET, first, 8);
    put(frame + ETHERNET + NONCE_AT, nonce, 8);
    return mix(mix(0, first), nonce);
}

static void number(uint8_t *frame, uint64_t hash, uint32_t seq) {
    hash = mix(hash, seq);
    put(frame + ETHERNET + SEQ_AT, seq, 4);
    put(frame + ETHERNET + CHECK_AT, (uint32_t)(hash ^ hash >> 32), 4);
}

static unsigned length(const char *size) {
    unsigned bytes = atoi(size);
    errno = EINVAL;
    if (bytes < HEAD || bytes > 1500) die("SIZE");
    return ETHERNET + bytes;
}

static void ask(const char *name, void *question, const char *what) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq request = {.ifr_data = question};
    strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
    if (fd < 0 || ioctl(fd, SIOCETHTOOL, &request)) die(what);
    close(fd);
}

// What the other end of a veth had no room for, so far.
static uint64_t xmit_errors(const char *name) {
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
    ask(name, &info, "ETHTOOL_GDRVINFO");
    struct ethtool_gstrings *names = calloc(1, sizeof *names + (size_t)info.n_stats * ETH_GSTRING_LEN);
    struct ethtool_stats *values = calloc(1, sizeof *values + (size_t)info.n_stats * sizeof(__u64));
    if (!names || !values) die("memory");
    names->cmd = ETHTOOL_GSTRINGS, names->string_set = ETH_SS_STATS, names->len = info.n_stats;
    values->cmd = ETHTOOL_GSTATS, values->n_stats = info.n_stats;
    ask(name, names, "ETHTOOL_GSTRINGS");
    ask(name, values, "ETHTOOL_GSTATS");
    uint64_t sum = 0, found = 0;
    for (unsigned n = 0; n < info.n_stats; n++)
        if (strstr((char *)names->data + n * ETH_GSTRING_LEN, "xdp_xmit_errors")) sum += values->data[n], found++;
    errno = ENOENT;
    if (!found) die("xdp_xmit_errors, which a veth counts");
    free(names), free(values);
    return sum;
}

static void generate(char **args) {
    unsigned index = device(args[0]), bytes = length(args[6]);
    pin(args[1]);
    static uint8_t frame[ETHERNET + 1500];
    uint64_t hash = head(frame, args + 4);
    int cell = make_map(BPF_MAP_TYPE_ARRAY, 8, 1), program = generating(cell, hash, index);
    union bpf_attr run = {0}, look = {0};
    run.test.prog_fd = program, run.test.repeat = strtoul(args[2], NULL, 0), run.test.batch_size = atoi(args[3]);
    run.test.data_in = (uintptr_t)frame, run.test.data_size_in = bytes;
    run.test.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
    uint64_t before = xmit_errors(args[0]);
    int64_t began = now(CLOCK_MONOTONIC);
    if (bpf(BPF_PROG_TEST_RUN, &run)) die("BPF_PROG_RUN with live frames (Linux 5.18)");
    int64_t span = now(CLOCK_MONOTONIC) - began;
    uint64_t made = 0;
    uint32_t key = 0;
    look.map_fd = cell, look.key = (uintptr_t)&key, look.value = (uintptr_t)&made;
    if (bpf(BPF_MAP_LOOKUP_ELEM, &look)) die("reading the count");
    printf("generated %llu xdp_xmit_errors %llu span_ns %lld\n", (unsigned long long)made,
           (unsigned long long)(xmit_errors(args[0]) - before), (long long)span);
}

static void send_paced(char **args) {
    unsigned bytes = length(args[6]);
    pin(args[1]);
    static uint8_t frame[ETHERNET + 1500];
    uint64_t hash = head(frame, args + 4);
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = (int)device(args[0])};
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0 || bind(fd, (void *)&address, sizeof address)) die("a packet socket");
    unsigned count = atoi(args[2]), sent = 0;
    int64_t cycle = atoll(args[3]), due = now(CLOCK_MONOTONIC) + 1000000;
    for (unsigned seq = 0; seq < count; seq++, due += cycle) {
        struct timespec at = {due / 1000000000, due % 1000000000};
        number(frame, hash, seq);
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {}
        sent += send(fd, frame, bytes, 0) == (ssize_t)bytes;
    }
    printf("sent %u\n", sent);
}

// ---- sockets ----

struct ring {
    uint32_t *producer, *consumer;
    void *entries;
};

struct queue {
    int fd;
    struct ring received, fill;
    uint8_t *memory;
    // What the loops have taken and given so far, and frames that are free.
    uint32_t taken, given, free;
    uint64_t frames[FRAMES];
};

static struct ring ring(int fd, const struct xdp_ring_offset *at, size_t entry, off_t page) {
    size_t bytes = at->desc + FRAMES * entry;
    uint8_t *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, page);
    if (start == MAP_FAILED) die("mapping a ring");
    return (struct ring){(void *)(start + at->producer), (void *)(start + at->consumer), start + at->desc};
}

static void set(int fd, int option, const void *value, socklen_t length, const char *what) {
    if (setsockopt(fd, SOL_XDP, option, value, length)) die(what);
}

// A socket at a queue over memory of its own, all of which the kernel has.
static struct queue *open_queue(unsigned index, unsigned number) {
    struct queue *queue = calloc(1, sizeof *queue);
    if (!queue) die("memory");
    size_t bytes = (size_t)FRAMES * FRAME;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
    queue->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB, -1, 0);
    if (queue->memory == MAP_FAILED) queue->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (queue->memory == MAP_FAILED) die("memory for packets");
    int fd = queue->fd = socket(AF_XDP, SOCK_RAW, 0), entries = FRAMES, completed = COMPLETED;
    if (fd < 0) die("socket(AF_XDP)");
    struct xdp_umem_reg memory = {.addr = (uintptr_t)queue->memory, .len = bytes, .chunk_size = FRAME};
    set(fd, XDP_UMEM_REG, &memory, sizeof memory, "XDP_UMEM_REG");
    set(fd, XDP_UMEM_FILL_RING, &entries, sizeof entries, "XDP_UMEM_FILL_RING");
    set(fd, XDP_UMEM_COMPLETION_RING, &completed, sizeof completed, "XDP_UMEM_COMPLETION_RING");
    set(fd, XDP_RX_RING, &entries, sizeof entries, "XDP_RX_RING");
    struct xdp_mmap_offsets at;
    socklen_t length = sizeof at;
    if (getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &length)) die("XDP_MMAP_OFFSETS");
    queue->received = ring(fd, &at.rx, sizeof(struct xdp_desc), XDP_PGOFF_RX_RING);
    queue->fill = ring(fd, &at.fr, sizeof(uint64_t), (off_t)XDP_UMEM_PGOFF_FILL_RING);
    for (uint64_t n = 0; n < FRAMES; n++) ((uint64_t *)queue->fill.entries)[n] = n * FRAME;
    __atomic_store_n(queue->fill.producer, queue->given = FRAMES, __ATOMIC_RELEASE);
    struct sockaddr_xdp address = {.sxdp_family = AF_XDP, .sxdp_ifindex = index, .sxdp_queue_id = number};
    address.sxdp_flags = XDP_COPY | XDP_USE_NEED_WAKEUP;
    // A queue whose socket was closed is free some moments later.
    for (int n = 0; bind(fd, (void *)&address, sizeof address); n++) {
        if (errno != EBUSY || n == 200) die("bind");
        usleep(5000);
    }
    return queue;
}

static unsigned queues_of(const char *name) {
    struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
    ask(name, &channels, "ETHTOOL_GCHANNELS");
    unsigned count = channels.rx_count + channels.combined_count;
    return count < 1 ? 1 : count > QUEUES ? QUEUES : count;
}

// A socket at each queue, and the program that `make` makes of their map.
static unsigned open_all(const char *name, int (*make)(int sockets), struct queue **queues) {
    unsigned index = device(name), count = queues_of(name);
    int sockets = make_map(BPF_MAP_TYPE_XSKMAP, 4, count);
    for (uint32_t n = 0; n < count; n++) {
        queues[n] = open_queue(index, n);
        union bpf_attr put = {0};
        put.map_fd = sockets, put.key = (uintptr_t)&n, put.value = (uintptr_t)&queues[n]->fd;
        if (bpf(BPF_MAP_UPDATE_ELEM, &put)) die("giving a socket to the program");
    }
    attach(make(sockets), index, XDP_FLAGS_DRV_MODE);
    ready();
    return count;
}

static void losses(struct queue **queues, unsigned count) {
    uint64_t dropped = 0, full = 0;
    for (unsigned n = 0; n < count; n++) {
        struct xdp_statistics of;
        socklen_t length = sizeof of;
        if (getsockopt(queues[n]->fd, SOL_XDP, XDP_STATISTICS, &of, &length)) die("XDP_STATISTICS");
        dropped += of.rx_dropped, full += of.rx_ring_full;
    }
    printf(" rx_dropped %llu rx_ring_full %llu\n", (unsigned long long)dropped, (unsigned long long)full);
}

static uint32_t waiting(const struct queue *queue, uint32_t most) {
    uint32_t count = __atomic_load_n(queue->received.producer, __ATOMIC_ACQUIRE) - queue->taken;
    return count < most ? count : most;
}

static struct xdp_desc packet(const struct queue *queue, uint32_t n) {
    return ((struct xdp_desc *)queue->received.entries)[(queue->taken + n) % FRAMES];
}

static void release(struct queue *queue, uint32_t count) {
    __atomic_store_n(queue->received.consumer, queue->taken += count, __ATOMIC_RELEASE);
}

// Nothing comes any more: for half a second after the first packet, for twenty before it.
static int is_over(uint64_t received, int64_t last) {
    return now(CLOCK_MONOTONIC) - last > (received ? 500000000LL : 20000000000LL);
}

static void drop(char **args) {
    static struct queue *queues[QUEUES];
    pin(args[1]);
    unsigned count = open_all(args[0], strcmp(args[2], "hints") ? redirecting : stamping, queues), looks = 0;
    uint64_t received = 0;
    int64_t first = 0, last = now(CLOCK_MONOTONIC);
    for (;;) {
        uint32_t got = 0;
        for (unsigned n = 0; n < count; n++) {
            struct queue *queue = queues[n];
            uint32_t come = waiting(queue, BATCH);
            if (!come) continue;
            uint64_t *fill = queue->fill.entries;
            for (uint32_t k = 0; k < come; k++)
                fill[(queue->given + k) % FRAMES] = packet(queue, k).addr & ~(uint64_t)(FRAME - 1);
            release(queue, come);
            __atomic_store_n(queue->fill.producer, queue->given += come, __ATOMIC_RELEASE);
            got += come;
        }
        if (got) {
            last = now(CLOCK_MONOTONIC);
            if (!first) first = last;
            received += got;
        } else if (++looks % 4096 == 0 && is_over(received, last)) {
            break;
        }
    }
    printf("received %llu span_ns %lld", (unsigned long long)received, (long long)(last - first));
    losses(queues, count);
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// The way of AF_XDP-interaction (xdp-project/bpf-examples): look for a batch; for each packet find
// the hint by its number, read the time in it, then the clock; then fill up with free frames.
static void delay(char **args) {
    static struct queue *queues[QUEUES];
    struct pollfd fds[QUEUES];
    unsigned most = atoi(args[3]), received = 0, looks = 0;
    int sleeps = !strcmp(args[2], "poll");
    int64_t *delays = malloc(most * sizeof *delays);
    if (!most || !delays) die("COUNT");
    // So that no page fault waits in the loop.
    memset(delays, 1, most * sizeof *delays);
    pin(args[1]);
    unsigned count = open_all(args[0], stamping, queues);
    for (unsigned n = 0; n < count; n++) fds[n] = (struct pollfd){.fd = queues[n]->fd, .events = POLLIN};
    int64_t last = now(CLOCK_MONOTONIC);
    while (received < most) {
        if (sleeps ? poll(fds, count, 100) <= 0 : ++looks % 65536 == 0)
            if (is_over(received, last)) break;
        for (unsigned n = 0; n < count; n++) {
            struct queue *queue = queues[n];
            uint32_t come = waiting(queue, BATCH);
            if (!come) continue;
            for (uint32_t k = 0; k < come; k++) {
                struct xdp_desc of = packet(queue, k);
                const uint8_t *at = queue->memory + of.addr;
                uint32_t id;
                uint64_t time;
                memcpy(&id, at - 4, sizeof id);
                if (id == HINT) {
                    memcpy(&time, at - 20, sizeof time);
                    int64_t took = now(CLOCK_TAI) - (int64_t)time;
                    if (received < most) delays[received++] = took;
                }
                queue->frames[queue->free++] = of.addr & ~(uint64_t)(FRAME - 1);
            }
            uint64_t *fill = queue->fill.entries;
            for (; queue->free; queue->given++) fill[queue->given % FRAMES] = queue->frames[--queue->free];
            __atomic_store_n(queue->fill.producer, queue->given, __ATOMIC_RELEASE);
            release(queue, come);
            last = now(CLOCK_MONOTONIC);
        }
    }
    qsort(delays, received, sizeof *delays, by_value);
    printf("received %u p50_ns %lld min_ns %lld", received, received ? (long long)delays[(received + 1) / 2 - 1] : 0,
           received ? (long long)delays[0] : 0);
    losses(queues, count);
}

static void hold(char **args) {
    open_queue(device(args[0]), atoi(args[1]));
    ready();
    pause();
}

static void attach_passing(char **args) {
    const struct bpf_insn program[] = {SET(0, XDP_PASS), EXIT};
    unsigned flags = strcmp(args[1], "generic") ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
    attach(load(program, sizeof program / sizeof *program), device(args[0]), flags);
    ready();
    pause();
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int args;
        void (*does)(char **args);
    } modes[] = {{"generate", 7, generate}, {"send", 7, send_paced}, {"drop", 3, drop},
                 {"delay", 4, delay},       {"hold", 2, hold},       {"attach", 2, attach_passing}};
    for (unsigned n = 0; n < sizeof modes / sizeof *modes; n++)
        if (argc > 1 && !strcmp(argv[1], modes[n].name) && argc == 2 + modes[n].args) return modes[n].does(argv + 2), 0;
    fputs("usage: see the head of rings.c\n", stderr);
    return 2;
}
