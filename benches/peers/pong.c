// SPDX-License-Identifier: MIT OR Apache-2.0
// The least ping-pong that stamps: one blocking request at a time over UDP, the kernel's stamps of
// every packet fetched at both ends. No frame, no matching, no statistics but the percentile, and
// by how much each 8th, 16th and 64th round trip is longer.
//
//   pong far ADDRESS PORT COUNT CPU [STAMPS]     answers that number of requests
//   pong near ADDRESS PORT COUNT CPU [STAMPS]    asks; prints the median round trip
//
// STAMPS is what becomes of tx stamps: fetch (behind each packet), leave (in the error queue), none
// (not asked for).
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/net_tstamp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

enum { SIZE = 64, CONTROL = 512 };

static char data[SIZE], control[CONTROL] __attribute__((aligned(8)));

static void die(const char *what) {
    fprintf(stderr, "pong: %s: %s\n", what, strerror(errno));
    exit(1);
}

enum stamps { FETCH, LEAVE, NONE };

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_TAI, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void take_stamp(int fd) {
    struct msghdr message = {.msg_control = control, .msg_controllen = CONTROL};
    recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT);
}

static ssize_t receive(int fd, struct sockaddr_in *from) {
    struct iovec io = {data, SIZE};
    struct msghdr message = {.msg_name = from,
                             .msg_namelen = from ? sizeof *from : 0,
                             .msg_iov = &io,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = CONTROL};
    return recvmsg(fd, &message, 0);
}

static int64_t median(int64_t *values, int count) {
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

// The median of the slowest class of round trips with one remainder by `n`, less the median of all.
static int64_t longest_of(const int64_t *took, int count, int n, int64_t *room, int64_t middle) {
    int64_t most = 0;
    for (int remainder = 0; remainder < n; remainder++) {
        int of_class = 0;
        for (int i = remainder; i < count; i += n) room[of_class++] = took[i];
        int64_t by = of_class ? median(room, of_class) - middle : 0;
        if (by > most) most = by;
    }
    return most;
}

int main(int argc, char **argv) {
    if (argc != 6 && argc != 7) {
        fprintf(stderr, "pong far|near ADDRESS PORT COUNT CPU [fetch|leave|none]\n");
        return 2;
    }
    const char *word = argc == 7 ? argv[6] : "fetch";
    enum stamps stamps = !strcmp(word, "none") ? NONE : !strcmp(word, "leave") ? LEAVE : FETCH;
    int is_far = !strcmp(argv[1], "far"), count = atoi(argv[4]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[3]))};
    if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) die("address");
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(atoi(argv[5]), &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus)) die("sched_setaffinity");
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    int flags = SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_OPT_ID |
                SOF_TIMESTAMPING_OPT_TSONLY | (stamps == NONE ? 0 : SOF_TIMESTAMPING_TX_SOFTWARE);
    if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags)) die("SO_TIMESTAMPING");
    int queue = 64 << 20;
    if (stamps == LEAVE && setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &queue, sizeof queue)) die("SO_RCVBUFFORCE");
    struct timeval limit = {2, 0};
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit)) die("SO_RCVTIMEO");
    if (is_far) {
        if (bind(fd, (void *)&address, sizeof address)) die("bind");
        struct sockaddr_in from;
        for (int i = 0; i < count && receive(fd, &from) > 0; i++) {
            sendto(fd, data, SIZE, 0, (void *)&from, sizeof from);
            if (stamps == FETCH) take_stamp(fd);
        }
        return 0;
    }
    if (connect(fd, (void *)&address, sizeof address)) die("connect");
    int64_t *took = calloc(count, sizeof *took);
    int done = 0;
    for (int i = 0; i < count; i++) {
        int64_t before = now();
        if (send(fd, data, SIZE, 0) < 0) die("send");
        if (receive(fd, NULL) < 0) break;
        took[done++] = now() - before;
        if (stamps == FETCH) take_stamp(fd);
    }
    if (!done) die("no reply");
    int64_t *room = calloc(done, sizeof *room);
    memcpy(room, took, done * sizeof *took);
    int64_t middle = median(room, done);
    printf("round_trips %d p50_ns %lld", done, (long long)middle);
    for (int n = 8; n <= 64; n *= n == 16 ? 4 : 2)
        printf(" each_%d_ns %lld", n, (long long)longest_of(took, done, n, room, middle));
    printf("\n");
    return 0;
}
