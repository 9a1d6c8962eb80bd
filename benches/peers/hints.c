// SPDX-License-Identifier: MIT OR Apache-2.0
// tardy's work on hints, done by the least program in C: it finds the struct before a packet by
// its number and reads members whose places it learns when it starts. And a walk over the running
// kernel's types, which lists nothing and checks nothing.
//
//   hints read     prints the ns for the hint of a packet with one member, and for each further
//                  member: medians of passes over areas of two structs that alternate
//   hints list     prints how many structs with a name have a last member that is called btf_id
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// As benches/compare/src/hints.rs has them.
enum { AREAS = 4096, ROUNDS = 101, AREA = 256 };

// A struct, by its number: a power of two of places, by the number's last bits.
struct layout {
    uint32_t id, size;
};

// A member of one struct: shifts drop what else is in the eight bytes at its place.
struct member {
    uint32_t id, offset;
    uint8_t shift;
};

// Each member, in both structs.
typedef struct member members[2];

static unsigned char areas[AREAS][AREA];

static void die(const char *what) {
    fprintf(stderr, "hints: %s\n", what);
    exit(1);
}

static void fill(void) {
    for (uint64_t n = 0; n < AREAS; n++) {
        uint32_t id = 3 + n % 2, size = n % 2 ? 24 : 20, cpu = 1;
        memcpy(areas[n] + AREA - size, &n, sizeof n);
        memcpy(areas[n] + AREA - size + 8, &cpu, sizeof cpu);
        memcpy(areas[n] + AREA - 4, &id, sizeof id);
    }
}

// The compiler must not see with which structs and members it is called.
static __attribute__((noipa)) uint64_t pass(const struct layout *layouts, unsigned mask,
                                            const members *of, unsigned count) {
    uint64_t sum = 0;
    for (int n = 0; n < AREAS; n++) {
        const unsigned char *end = areas[n] + AREA;
        uint32_t id;
        memcpy(&id, end - sizeof id, sizeof id);
        const struct layout *layout = &layouts[id & mask];
        if (layout->id != id || layout->size > AREA) die("a hint is missing");
        for (unsigned m = 0; m < count; m++) {
            const struct member *member = id == of[m][0].id ? &of[m][0] : &of[m][1];
            uint64_t word;
            if (member->offset + sizeof word > layout->size) die("a member is not in its struct");
            memcpy(&word, end - layout->size + member->offset, sizeof word);
            sum += word << member->shift >> member->shift;
        }
    }
    return sum;
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static double timed(const struct layout *layouts, const members *of, unsigned count,
                    uint64_t expected) {
    double began = now_ns();
    uint64_t sum = pass(layouts, 1, of, count);
    double took = now_ns() - began;
    if (sum != expected) die("the members do not add up");
    return took / AREAS;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, ascending);
    return values[ROUNDS / 2];
}

static void read_members(void) {
    static double first[ROUNDS], further[ROUNDS];
    const struct layout layouts[2] = { { 4, 24 }, { 3, 20 } };
    // The time, the CPU and the queue.
    const members of[3] = {
        { { 3, 0, 0 }, { 4, 0, 0 } },
        { { 3, 8, 32 }, { 4, 8, 32 } },
        { { 3, 12, 32 }, { 4, 12, 32 } },
    };
    uint64_t times = (uint64_t)AREAS * (AREAS - 1) / 2;
    fill();
    for (int n = 0; n < ROUNDS; n++) {
        first[n] = timed(layouts, of, 1, times);
        further[n] = (timed(layouts, of, 3, times + AREAS) - first[n]) / 2;
    }
    printf("first %f further %f\n", median(first), median(further));
}

// Bytes that follow a type and its number of members, by its kind (linux/btf.h).
static size_t behind(uint32_t kind, uint32_t members) {
    static const uint8_t fixed[20] = { [1] = 4, [3] = 12, [14] = 4, [17] = 4 };
    static const uint8_t each[20] = { [4] = 12, [5] = 12, [6] = 8, [13] = 8, [15] = 12, [19] = 12 };
    return kind < 20 ? fixed[kind] + (size_t)each[kind] * members : 0;
}

static void list(void) {
    const char *path = "/sys/kernel/btf/vmlinux";
    int fd = open(path, O_RDONLY);
    struct stat stat;
    if (fd < 0 || fstat(fd, &stat) != 0) die("/sys/kernel/btf/vmlinux cannot be opened");
    unsigned char *bytes = malloc(stat.st_size);
    for (off_t at = 0; bytes && at < stat.st_size;) {
        ssize_t had = read(fd, bytes + at, stat.st_size - at);
        if (had <= 0) die("/sys/kernel/btf/vmlinux cannot be read");
        at += had;
    }
    // Magic, version and flags; then the header's length, and offset and length of the types and
    // of the strings.
    uint32_t *head = (uint32_t *)bytes;
    unsigned char *at = bytes + head[1] + head[2], *end = at + head[3];
    const char *strings = (char *)bytes + head[1] + head[4];
    unsigned found = 0;
    while (at < end) {
        uint32_t *type = (uint32_t *)at;
        uint32_t kind = type[1] >> 24 & 31, members = type[1] & 0xffff;
        at += 12 + behind(kind, members);
        if (kind == 4 && members > 0 && type[0] != 0) {
            uint32_t *last = (uint32_t *)at - 3;
            found += strcmp(strings + last[0], "btf_id") == 0;
        }
    }
    printf("%u structs\n", found);
}

int main(int count, char **words) {
    if (count == 2 && strcmp(words[1], "read") == 0)
        read_members();
    else if (count == 2 && strcmp(words[1], "list") == 0)
        list();
    else
        die("read or list");
    return 0;
}
