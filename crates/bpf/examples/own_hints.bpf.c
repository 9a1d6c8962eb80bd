// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * An XDP program with hints of its own: two structs that alternate packet by packet. It needs no
 * header of libbpf's:
 *
 *   clang -target bpf -g -O2 -I /usr/include/$(uname -m)-linux-gnu \
 *     -c crates/bpf/examples/own_hints.bpf.c -o own_hints.o
 */
#include <linux/bpf.h>
#include "own_hints.h"

#define SEC(name) __attribute__((section(name), used))
/* What bpf_core_type_id_local() of libbpf's headers does: the loader puts the number there. */
#define type_id_local(type) ((__u32)__builtin_btf_type_id(*(type *)0, 0))

static long (*const adjust_meta)(struct xdp_md *, int) = (void *)BPF_FUNC_xdp_adjust_meta;
static __u64 (*const tai_ns)(void) = (void *)BPF_FUNC_ktime_get_tai_ns;
static __u32 (*const processor)(void) = (void *)BPF_FUNC_get_smp_processor_id;
static long (*const redirect_map)(void *, __u64, __u64) = (void *)BPF_FUNC_redirect_map;

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* tardy fills it with the sockets of the queues. */
struct {
	int (*type)[BPF_MAP_TYPE_XSKMAP];
	int (*max_entries)[64];
	__u32 *key;
	__u32 *value;
} xsks_map SEC(".maps");

static __u64 last;

SEC("xdp")
int own_hints(struct xdp_md *ctx)
{
	/* Read once: clang would merge two reads into a form that the verifier refuses. */
	__u32 queue = ctx->rx_queue_index;
	__u64 time = tai_ns();
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u16 tag;

	asm volatile("" : "+r"(queue));
	if (data + 18 > end)
		return XDP_PASS;
	if (data[12] == 0x81 && data[13] == 0) {
		struct priority *hint;

		tag = data[14] << 8 | data[15];
		if (adjust_meta(ctx, -(int)sizeof(*hint)))
			return redirect_map(&xsks_map, queue, XDP_PASS);
		hint = (void *)(long)ctx->data_meta;
		if ((void *)(hint + 1) > (void *)(long)ctx->data)
			return XDP_PASS;
		hint->time = time;
		hint->vlan = tag & 0xfff;
		hint->pcp = tag >> 13;
		hint->btf_id = type_id_local(struct priority);
	} else {
		struct arrival *hint;
		__u16 length = end - data;

		if (adjust_meta(ctx, -(int)sizeof(*hint)))
			return redirect_map(&xsks_map, queue, XDP_PASS);
		hint = (void *)(long)ctx->data_meta;
		if ((void *)(hint + 1) > (void *)(long)ctx->data)
			return XDP_PASS;
		hint->time = time;
		hint->cpu = processor();
		hint->length = length;
		hint->gap = last && time - last < 0x7fffffff ? (__s32)(time - last) : -1;
		hint->btf_id = type_id_local(struct arrival);
		last = time;
	}
	return redirect_map(&xsks_map, queue, XDP_PASS);
}
