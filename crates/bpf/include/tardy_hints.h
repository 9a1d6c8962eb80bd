/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Hints of XDP programs for receivers in C: which struct is in the metadata area before a packet,
 * where it begins, and which number the struct has in the BTF of the object that was loaded. Needs
 * no library.
 *
 * The convention: the struct's last member is `btf_id` and has 4 bytes. The program writes the
 * number of the struct's type there, as bpf_core_type_id_local() gives it. The struct ends where
 * the packet begins. The number 0 means that there is no hint.
 *
 * The numbers belong to one object file. Find them in the very bytes that were loaded.
 *
 * The structs below are those of tardy's own program. A BPF program may include this file for
 * them, after <linux/bpf.h> or vmlinux.h, which have the types; the functions are left out there.
 */
#ifndef TARDY_HINTS_H
#define TARDY_HINTS_H

#ifndef __bpf__
#include <linux/types.h>
#endif

/* When and where the XDP program saw a packet. Its members may begin at any multiple of 4. */
struct rx_time {
	/* CLOCK_TAI, or CLOCK_MONOTONIC where the kernel gives programs no other, ns. */
	__u64 time;
	/* The CPU that ran the program. */
	__u32 cpu;
	__u32 queue;
	__u32 btf_id;
} __attribute__((packed, aligned(4)));

/* The same of a synchronisation frame, with its number in the trial. */
struct mark {
	__u64 time;
	__u32 cpu;
	__u32 queue;
	__u32 seq;
	__u32 btf_id;
} __attribute__((packed, aligned(4)));

/*
 * The same with what the device knows of the packet, for a stream with `rx.hints`. A value counts
 * only if its `has_…` is 1. `offers_…` is 0 if the driver does not offer it, or nobody asked.
 */
#define TARDY_OF_DEVICE \
	__u64 time; \
	/* When the device received the packet, by its own clock, ns. */ \
	__u64 hw_time; \
	/* Its hash, and what of the packet is in it: bits of the kernel's xdp_rss_hash_type. */ \
	__u32 hash; \
	__u16 hash_type; \
	/* The VLAN tag that the device took off: its TCI, and its EtherType. */ \
	__u16 vlan_tci; \
	__u16 vlan_proto; \
	__u8 has_hw_time; \
	__u8 has_hash; \
	__u8 has_vlan; \
	__u8 offers_hw_time; \
	__u8 offers_hash; \
	__u8 offers_vlan; \
	__u32 cpu; \
	__u32 queue;

struct rx_hints {
	TARDY_OF_DEVICE
	__u32 btf_id;
} __attribute__((packed, aligned(4)));

/* The same of a synchronisation frame. */
struct mark_hints {
	TARDY_OF_DEVICE
	__u32 seq;
	__u32 btf_id;
} __attribute__((packed, aligned(4)));

#ifndef __bpf__

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The number of the type of the hint before a packet; 0 if there is none. `have` is the number of
 * bytes before the packet that belong to its frame. */
static inline uint32_t tardy_hint_id(const void *packet, size_t have)
{
	uint32_t id = 0;

	if (have >= sizeof(id))
		memcpy(&id, (const uint8_t *)packet - sizeof(id), sizeof(id));
	return id;
}

/* Copies the hint of `size` bytes before a packet, if it is of type `id`. Returns 1 then, else 0.
 * It is a copy because the struct may begin at any address. */
static inline int tardy_hint_read(void *to, size_t size, uint32_t id, const void *packet, size_t have)
{
	if (!id || have < size || tardy_hint_id(packet, have) != id)
		return 0;
	memcpy(to, (const uint8_t *)packet - size, size);
	return 1;
}

/* Call it before a frame is given back to the kernel: otherwise the next packet in it that gets no
 * hint shows this one. */
static inline void tardy_hint_clear(void *packet, size_t have)
{
	if (have >= sizeof(uint32_t))
		memset((uint8_t *)packet - sizeof(uint32_t), 0, sizeof(uint32_t));
}

/* The little-endian number of 2, 4 or 8 bytes at `at`; 0 where the bytes end. */
static inline uint64_t tardy_hint_number(const uint8_t *bytes, size_t length, size_t at, size_t size)
{
	uint64_t number = 0;
	size_t n;

	if (at > length || length - at < size)
		return 0;
	for (n = 0; n < size; n++)
		number |= (uint64_t)bytes[at + n] << (8 * n);
	return number;
}

/* Bytes of a BTF type after its first 12; SIZE_MAX if its kind is unknown. */
static inline size_t tardy_hint_tail(uint32_t info)
{
	size_t count = info & 0xffff;

	switch (info >> 24 & 0x1f) {
	case 1: case 14: case 17: /* int, variable, declaration tag */
		return 4;
	case 3: /* array */
		return 12;
	case 4: case 5: case 15: case 19: /* struct, union, data section, enum64 */
		return 12 * count;
	case 6: case 13: /* enum, prototype */
		return 8 * count;
	case 2: case 7: case 8: case 9: case 10: case 11: case 12: case 16: case 18:
		return 0;
	default:
		return SIZE_MAX;
	}
}

/* A type of BTF: where it is, and where the names are. */
struct tardy_hint_type {
	const uint8_t *bytes;
	size_t at, end, strings, strings_end;
	uint32_t id, info;
};

/* 1 if the name at this offset is `name`. */
static inline int tardy_hint_is(const struct tardy_hint_type *type, size_t offset, const char *name)
{
	const size_t wanted = strlen(name) + 1;

	return offset < type->strings_end - type->strings &&
	       type->strings_end - type->strings - offset >= wanted &&
	       !memcmp(type->bytes + type->strings + offset, name, wanted);
}

/* Finds the struct of this name. Returns 0 if there is none or the BTF is damaged. */
static inline int tardy_hint_type_find(struct tardy_hint_type *type, const void *btf, size_t length, const char *name)
{
	const uint8_t *bytes = btf;
	size_t header, at, tail;

	if (tardy_hint_number(bytes, length, 0, 2) != 0xeb9f || length < 24)
		return 0;
	header = tardy_hint_number(bytes, length, 4, 4);
	at = header + tardy_hint_number(bytes, length, 8, 4);
	type->bytes = bytes;
	type->end = at + tardy_hint_number(bytes, length, 12, 4);
	type->strings = header + tardy_hint_number(bytes, length, 16, 4);
	type->strings_end = type->strings + tardy_hint_number(bytes, length, 20, 4);
	if (type->end > length || type->strings_end > length)
		return 0;
	for (type->id = 1; type->end - at >= 12; at += 12 + tail, type->id++) {
		type->info = tardy_hint_number(bytes, type->end, at + 4, 4);
		tail = tardy_hint_tail(type->info);
		if (tail > type->end - at - 12)
			return 0;
		type->at = at;
		if ((type->info >> 24 & 0x1f) == 4 &&
		    tardy_hint_is(type, tardy_hint_number(bytes, type->end, at, 4), name))
			return 1;
	}
	return 0;
}

/* The number of the struct of this name in BTF, as libbpf's btf__raw_data() or
 * /sys/kernel/btf/vmlinux have it; 0 if there is none or the BTF is damaged. For a receiver that
 * uses libbpf btf__find_by_name_kind() does the same. */
static inline uint32_t tardy_hint_find_btf(const void *btf, size_t length, const char *name)
{
	struct tardy_hint_type type;

	return tardy_hint_type_find(&type, btf, length, name) ? type.id : 0;
}

/* How many bytes before the packet a member of the struct begins; 0 if there is no such member, or
 * it is a bitfield or within an unnamed struct. Of the first member that is the struct's size:
 * where it differs from sizeof, the program has another struct than the receiver. */
static inline size_t tardy_hint_back_btf(const void *btf, size_t length, const char *name, const char *member)
{
	struct tardy_hint_type type;
	size_t from = 0, end = 0, n;
	int found = 0;

	if (!tardy_hint_type_find(&type, btf, length, name))
		return 0;
	for (n = 0; n < (type.info & 0xffff); n++) {
		const size_t at = type.at + 12 + 12 * n;
		const size_t called = tardy_hint_number(type.bytes, type.end, at, 4);
		size_t bits = tardy_hint_number(type.bytes, type.end, at + 8, 4), width = 0;

		/* With bitfields in the struct, the upper byte is the member's width. */
		if (type.info >> 31) {
			width = bits >> 24;
			bits &= 0xffffff;
		}
		if (tardy_hint_is(&type, called, member) && !width && !(bits % 8)) {
			from = bits / 8;
			found = 1;
		}
		if (tardy_hint_is(&type, called, "btf_id"))
			end = bits / 8 + sizeof(uint32_t);
	}
	return found && end > from ? end - from : 0;
}

/* The BTF in the bytes of an object file (ELF, 64 bits, little endian); NULL if there is none. */
static inline const void *tardy_hint_btf(const void *object, size_t length, size_t *bytes_of)
{
	const uint8_t *bytes = object;
	uint64_t sections, size, count, names, n;

	if (length < 64 || memcmp(bytes, "\177ELF\2\1", 6))
		return NULL;
	sections = tardy_hint_number(bytes, length, 40, 8);
	size = tardy_hint_number(bytes, length, 58, 2);
	count = tardy_hint_number(bytes, length, 60, 2);
	names = tardy_hint_number(bytes, length, 62, 2);
	if (size < 64 || names >= count || sections > length || (length - sections) / size < count)
		return NULL;
	names = tardy_hint_number(bytes, length, sections + names * size + 24, 8);
	for (n = 0; n < count; n++) {
		const size_t at = sections + n * size;
		const uint64_t of = tardy_hint_number(bytes, length, at, 4);
		const uint64_t begin = tardy_hint_number(bytes, length, at + 24, 8);

		*bytes_of = tardy_hint_number(bytes, length, at + 32, 8);
		if (names < length && of < length - names && length - names - of >= 5 &&
		    !memcmp(bytes + names + of, ".BTF", 5))
			return begin <= length && *bytes_of <= length - begin ? bytes + begin : NULL;
	}
	return NULL;
}

/* tardy_hint_find_btf() in the bytes of an object file. */
static inline uint32_t tardy_hint_find(const void *object, size_t length, const char *name)
{
	size_t bytes_of = 0;
	const void *btf = tardy_hint_btf(object, length, &bytes_of);

	return btf ? tardy_hint_find_btf(btf, bytes_of, name) : 0;
}

/* tardy_hint_back_btf() in the bytes of an object file. */
static inline size_t tardy_hint_back(const void *object, size_t length, const char *name, const char *member)
{
	size_t bytes_of = 0;
	const void *btf = tardy_hint_btf(object, length, &bytes_of);

	return btf ? tardy_hint_back_btf(btf, bytes_of, name, member) : 0;
}

/* The number of `size` bytes (1, 2, 4 or 8) that begins `back` bytes before a packet, at any
 * address; 0 if the area does not reach so far. */
static inline uint64_t tardy_hint_member(const void *packet, size_t have, size_t back, size_t size)
{
	if (!back || back > have || size > back)
		return 0;
	return tardy_hint_number((const uint8_t *)packet - back, back, 0, size);
}

#endif /* __bpf__ */
#endif /* TARDY_HINTS_H */
