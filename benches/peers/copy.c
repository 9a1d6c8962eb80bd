// SPDX-License-Identifier: MIT OR Apache-2.0
// The least copy by several threads: each is pinned to a CPU of its own and copies one buffer to
// another again and again by the C library's memcpy. Nothing is recorded in between.
//
//   copy THREADS BYTES LOOPS     prints bytes a second, from the first beginning to the last end
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MOST = 64 };

static size_t bytes;
static long loops;
static pthread_barrier_t all;

struct own {
    pthread_t thread;
    int cpu;
    int64_t begin, end;
};

static void die(const char *what, int error) {
    fprintf(stderr, "copy: %s: %s\n", what, strerror(error));
    exit(1);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// In small pages, as tardy has them unless it is asked for others.
static char *memory(void) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) die("mmap", errno);
    madvise(at, bytes, MADV_NOHUGEPAGE);
    memset(at, 0x5a, bytes);
    return at;
}

static void *body(void *arg) {
    struct own *own = arg;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(own->cpu, &one);
    int refused = pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    if (refused) die("pinning a thread", refused);
    char *from = memory(), *to = memory();
    memcpy(to, from, bytes);
    pthread_barrier_wait(&all);
    own->begin = now();
    for (long n = 0; n < loops; n++) {
        memcpy(to, from, bytes);
        // The next copy is not the same one to the compiler.
        __asm__ volatile("" ::: "memory");
    }
    own->end = now();
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc == 4 ? atoi(argv[1]) : 0;
    if (threads < 1 || threads > MOST) {
        fprintf(stderr, "usage: copy THREADS BYTES LOOPS\n");
        return 2;
    }
    bytes = strtoull(argv[2], NULL, 10);
    loops = atol(argv[3]);
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable)) die("sched_getaffinity", errno);
    struct own own[MOST];
    pthread_barrier_init(&all, NULL, (unsigned)threads);
    for (int n = 0, cpu = -1; n < threads; n++) {
        do cpu = (cpu + 1) % CPU_SETSIZE;
        while (!CPU_ISSET(cpu, &usable));
        own[n].cpu = cpu;
        int refused = pthread_create(&own[n].thread, NULL, body, &own[n]);
        if (refused) die("pthread_create", refused);
    }
    int64_t begin = INT64_MAX, end = 0;
    for (int n = 0; n < threads; n++) {
        pthread_join(own[n].thread, NULL);
        if (own[n].begin < begin) begin = own[n].begin;
        if (own[n].end > end) end = own[n].end;
    }
    printf("%.0f\n", (double)bytes * (double)loops * threads * 1e9 / (double)(end - begin));
    return 0;
}
