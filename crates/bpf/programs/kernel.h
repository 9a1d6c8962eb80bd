/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What tardy's programs need of the kernel's own types: few enough to be written here, so that
 * building them needs neither this machine's kernel nor its headers.
 */
#ifndef TARDY_KERNEL_H
#define TARDY_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u16 __sum16;
typedef __u32 __wsum;

enum xdp_action {
	XDP_ABORTED = 0,
	XDP_DROP,
	XDP_PASS,
	XDP_TX,
	XDP_REDIRECT,
};

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_DEVMAP = 14,
	BPF_MAP_TYPE_XSKMAP = 17,
};

/* Of bpf_map_update_elem(): only if there is no such key. */
enum {
	BPF_NOEXIST = 1,
};

/* The context of an XDP program, as the kernel documents it for programs. */
struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};

#endif
