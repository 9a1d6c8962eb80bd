// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Prints the hints in metadata areas, for receivers in C: decode OBJECT < AREAS. Each line of AREAS
 * is the bytes before one packet in hexadecimal. It is compiled for two structs, those of
 * own_hints.bpf.c; their numbers are those of the object.
 *
 *   cc -O2 -Wall -I crates/bpf/include crates/bpf/examples/decode.c -o decode
 */
#include <stdio.h>
#include <stdlib.h>
#include "tardy_hints.h"
#include "own_hints.h"

static unsigned char *whole(const char *path, size_t *length)
{
	FILE *file = fopen(path, "rb");
	unsigned char *bytes = NULL;
	long end = -1;

	if (file && !fseek(file, 0, SEEK_END))
		end = ftell(file);
	if (end >= 0 && (bytes = malloc((size_t)end + 1))) {
		rewind(file);
		*length = fread(bytes, 1, (size_t)end, file);
	}
	if (file)
		fclose(file);
	return bytes;
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int main(int count, char **arguments)
{
	unsigned char area[512], *object;
	uint32_t arrival_id, priority_id;
	char line[1026];
	size_t length = 0, gap_back;
	int is_same;

	object = count == 2 ? whole(arguments[1], &length) : NULL;
	if (!object) {
		fprintf(stderr, "decode: name the object that is loaded\n");
		return 2;
	}
	/* Once, before the first packet. */
	arrival_id = tardy_hint_find(object, length, "arrival");
	priority_id = tardy_hint_find(object, length, "priority");
	/* Another struct of this name would be read wrongly. A receiver that is not compiled for the
	 * struct keeps what tardy_hint_back() finds, and reads by tardy_hint_member(). */
	is_same = tardy_hint_back(object, length, "arrival", "time") == sizeof(struct arrival) &&
		  tardy_hint_back(object, length, "priority", "time") == sizeof(struct priority);
	gap_back = tardy_hint_back(object, length, "arrival", "gap");
	free(object);
	if (!arrival_id || !priority_id) {
		fprintf(stderr, "decode: the object's BTF does not have both structs\n");
		return 2;
	}
	if (!is_same) {
		fprintf(stderr, "decode: the object's structs are not those that this program was compiled for\n");
		return 2;
	}
	while (fgets(line, sizeof(line), stdin)) {
		struct arrival arrival;
		struct priority priority;
		const unsigned char *packet;
		size_t have = 0;
		uint32_t id;

		while (have < sizeof(area) && digit(line[2 * have]) >= 0 && digit(line[2 * have + 1]) >= 0) {
			area[have] = (unsigned char)(digit(line[2 * have]) << 4 | digit(line[2 * have + 1]));
			have++;
		}
		/* The area ends where the packet begins. */
		packet = area + have;
		id = tardy_hint_id(packet, have);
		if (!id)
			printf("absent\n");
		else if (tardy_hint_read(&arrival, sizeof(arrival), arrival_id, packet, have))
			printf("arrival { time=%llu, cpu=%u, length=%u, gap=%d, btf_id=%u }\n",
			       (unsigned long long)arrival.time, arrival.cpu, arrival.length,
			       (int)(int32_t)tardy_hint_member(packet, have, gap_back, sizeof(arrival.gap)),
			       arrival.btf_id);
		else if (tardy_hint_read(&priority, sizeof(priority), priority_id, packet, have))
			printf("priority { time=%llu, vlan=%u, pcp=%u, btf_id=%u }\n",
			       (unsigned long long)priority.time, priority.vlan, priority.pcp, priority.btf_id);
		else
			printf("not decoded: type %u\n", id);
	}
	return 0;
}
