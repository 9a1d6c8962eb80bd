// SPDX-License-Identifier: MIT OR Apache-2.0
// The least program that moves stamped UDP packets: sendmmsg on one side, recvmmsg on the other,
// the kernel's stamps of both kept in memory by packet number. No schedule, no checks, no
// statistics: what tardy's ends are measured against.
//
//   bare rx ADDRESS PORT COUNT SIZE CPU STAMPS       prints what came, when it has all come or
//                                                    nothing came for 1 s
//   bare tx ADDRESS PORT COUNT SIZE CPU STAMPS       sends; STAMPS is 0 or 1
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

enum { BATCH = 64, ROOM = 2048, CONTROL = 256 };

static char data[BATCH][ROOM], control[BATCH][CONTROL] __attribute__((aligned(8)));
static struct iovec io[BATCH];
static struct mmsghdr messages[BATCH];
static int64_t *stamps;
static unsigned count, size;

static void die(const char *what) {
    fprintf(stderr, "bare: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t ns(struct timespec t) { return t.tv_sec * 1000000000LL + t.tv_nsec; }

// The stamp among a message's control data, 0 if there is none; `key` is set where the error queue
// gives one.
static int64_t stamp_of(struct msghdr *message, uint32_t *key) {
    int64_t stamp = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPING) {
            struct timespec times[3];
            memcpy(times, CMSG_DATA(c), sizeof times);
            stamp = ns(times[0]);
        } else if (c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) {
            struct sock_extended_err error;
            memcpy(&error, CMSG_DATA(c), sizeof error);
            *key = error.ee_data;
        }
    }
    return stamp;
}

static void prepare(int with_control) {
    for (int i = 0; i < BATCH; i++) {
        messages[i].msg_hdr.msg_control = with_control ? control[i] : NULL;
        messages[i].msg_hdr.msg_controllen = with_control ? CONTROL : 0;
    }
}

static unsigned send_all(int fd, int with_stamps) {
    static struct mmsghdr errors[BATCH];
    unsigned sent = 0, stamped = 0;
    for (int idle = 0; sent < count || (with_stamps && stamped < sent && idle < 1000);) {
        if (sent < count) {
            unsigned batch = count - sent < BATCH ? count - sent : BATCH;
            for (unsigned i = 0; i < batch; i++) {
                uint32_t seq = sent + i;
                memcpy(data[i], &seq, sizeof seq);
            }
            int done = sendmmsg(fd, messages, batch, 0);
            if (done < 0 && errno != ENOBUFS) die("sendmmsg");
            if (done > 0) sent += done;
        }
        if (!with_stamps) continue;
        int got;
        do {
            for (int i = 0; i < BATCH; i++) {
                errors[i].msg_hdr.msg_control = control[i];
                errors[i].msg_hdr.msg_controllen = CONTROL;
            }
            got = recvmmsg(fd, errors, BATCH, MSG_ERRQUEUE | MSG_DONTWAIT, NULL);
            for (int i = 0; i < got; i++) {
                uint32_t key = count;
                int64_t stamp = stamp_of(&errors[i].msg_hdr, &key);
                if (stamp && key < count) stamps[key] = stamp, stamped++;
            }
        } while (got == BATCH);
        if (sent == count && got <= 0) {
            struct timespec moment = {.tv_nsec = 1000000};
            nanosleep(&moment, NULL);
            idle++;
        }
    }
    printf("tx packets %u stamps %u\n", sent, stamped);
    return sent;
}

static void receive_all(int fd, int with_stamps) {
    struct timeval limit = {.tv_sec = 1};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    unsigned received = 0, stamped = 0;
    int64_t first = 0, last = 0;
    for (int waits = 0; received < count && waits < (received ? 1 : 20);) {
        prepare(with_stamps);
        int got = recvmmsg(fd, messages, BATCH, MSG_WAITFORONE, NULL);
        if (got <= 0) {
            waits++;
            continue;
        }
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        last = ns(t);
        if (!first) first = last;
        for (int i = 0; i < got; i++) {
            uint32_t seq, none;
            memcpy(&seq, data[i], sizeof seq);
            int64_t stamp = with_stamps ? stamp_of(&messages[i].msg_hdr, &none) : 0;
            if (seq < count && stamp) stamps[seq] = stamp, stamped++;
        }
        received += got;
    }
    printf("rx packets %u stamps %u span_ns %lld packets_per_s %.0f\n", received, stamped, (long long)(last - first),
           last > first ? (received - 1) * 1e9 / (last - first) : 0.0);
}

int main(int argc, char **argv) {
    if (argc != 8) {
        fprintf(stderr, "usage: bare tx|rx ADDRESS PORT COUNT SIZE CPU STAMPS\n");
        return 2;
    }
    int tx = !strcmp(argv[1], "tx"), with_stamps = atoi(argv[7]);
    count = atoi(argv[4]);
    size = atoi(argv[5]);
    if (size < sizeof(uint32_t) || size > ROOM) return 2;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(atoi(argv[6]), &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus)) die("sched_setaffinity");
    stamps = calloc(count, sizeof *stamps);
    memset(stamps, 1, count * sizeof *stamps);
    mlockall(MCL_CURRENT | MCL_FUTURE);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[3]))};
    if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) return 2;
    int bytes = 16 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
    int flags = SOF_TIMESTAMPING_SOFTWARE | (tx ? SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY
                                                : SOF_TIMESTAMPING_RX_SOFTWARE);
    if (with_stamps && setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags)) die("SO_TIMESTAMPING");
    for (int i = 0; i < BATCH; i++) {
        io[i] = (struct iovec){data[i], tx ? size : ROOM};
        messages[i].msg_hdr.msg_iov = &io[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    if (tx) {
        if (connect(fd, (void *)&address, sizeof address)) die("connect");
        return send_all(fd, with_stamps) == count ? 0 : 1;
    }
    if (bind(fd, (void *)&address, sizeof address)) die("bind");
    receive_all(fd, with_stamps);
}
