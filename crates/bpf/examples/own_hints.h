/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The hints of own_hints.bpf.c: what a program of your own might have. */
#ifndef OWN_HINTS_H
#define OWN_HINTS_H

#include <linux/types.h>

struct arrival {
	/* CLOCK_TAI, ns. */
	__u64 time;
	__u16 cpu;
	__u16 length;
	/* From the packet before it, ns; -1 for the first and beyond two seconds. */
	__s32 gap;
	__u32 btf_id;
} __attribute__((packed, aligned(4)));

/* Of packets with a VLAN tag. */
struct priority {
	__u64 time;
	__u16 vlan;
	__u16 pcp;
	__u32 btf_id;
} __attribute__((packed, aligned(4)));

#endif
