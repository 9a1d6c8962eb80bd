// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A bare ping-pong over UDP, to hold tardy's against:
 *   bare answer PORT             sends back whatever comes
 *   bare ask ADDRESS PORT COUNT  asks, one request at a time, and prints the median round trip, ns
 * Both have the policy of a ping-pong's threads, the ordinary one, and memory that is locked.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 64, MOST = 100000, WARM_UP = 200 };

static int by_number(const void *a, const void *b)
{
	long long x = *(const long long *)a, y = *(const long long *)b;
	return (x > y) - (x < y);
}

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_TAI, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int udp(const char *address, int port, int answers)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	at.sin_addr.s_addr = inet_addr(address);
	if (s < 0 || (answers ? bind : connect)(s, (struct sockaddr *)&at, sizeof at))
		return -1;
	return mlockall(MCL_CURRENT | MCL_FUTURE) ? -1 : s;
}

static int answer(int port)
{
	char bytes[2048];
	struct sockaddr_in from;
	int s = udp("0.0.0.0", port, 1);
	while (s >= 0) {
		socklen_t length = sizeof from;
		ssize_t n = recvfrom(s, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &length);
		if (n < 0 || sendto(s, bytes, n, 0, (struct sockaddr *)&from, length) != n)
			return 1;
	}
	return 1;
}

/* Waits for the answer to this request: those of earlier ones may come late. */
static int answered(int s, unsigned request)
{
	unsigned of;
	char bytes[SIZE];
	do {
		if (recv(s, bytes, SIZE, 0) != SIZE)
			return 0;
		memcpy(&of, bytes, sizeof of);
	} while (of != request);
	return 1;
}

static int ask(const char *address, int port, int count)
{
	static long long trips[MOST];
	char bytes[SIZE] = { 0 };
	unsigned request = 0;
	int s = udp(address, port, 0), n = -1000000;
	struct timeval patience = { .tv_usec = 200000 };
	if (s < 0 || count > MOST || setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience))
		return 1;
	while (n < count) {
		long long began = now();
		request++;
		memcpy(bytes, &request, sizeof request);
		/* Until the machine is up, nothing comes back. */
		if (send(s, bytes, SIZE, 0) != SIZE || !answered(s, request)) {
			if (n >= 0)
				return 1;
			if (n++ > -999000)
				return 1;
			usleep(100000);
			continue;
		}
		if (n < -WARM_UP)
			n = -WARM_UP;
		if (n >= 0)
			trips[n] = now() - began;
		n++;
	}
	qsort(trips, count, sizeof *trips, by_number);
	printf("bare %lld\n", trips[(count - 1) / 2]);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "answer"))
		return answer(atoi(argv[2]));
	if (argc == 5 && !strcmp(argv[1], "ask"))
		return ask(argv[2], atoi(argv[3]), atoi(argv[4]));
	return 2;
}
