// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The XDP program of port `xdp`. It recognises tardy's test frames of one stream, stamps each in
 * the metadata area before the packet, and redirects it to the AF_XDP socket of its queue. All
 * other traffic goes on to the kernel.
 *
 * What is in the metadata area is described by the object's own BTF. The last member of each
 * struct is the id of its type there. The structs are in ../include/tardy_hints.h: `mark` goes
 * before a synchronisation frame, `rx_time` before every other test frame.
 *
 * This file is compiled twice. With DEVICE_HINTS the program also asks the device what it knows of
 * each packet, and the structs are `mark_hints` and `rx_hints`. Only a program that is bound to its
 * device may ask, and the kernel refuses such calls in any other program, called or not. So the
 * program for all other streams has none of them.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "tardy_hints.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* As crates/model/src/ethernet.rs and frame.rs have them. */
#define UNTAGGED 14
#define MOST_TAGS 4
#define MAGIC 0x74647902
#define MARK 0x80

/* What the loader sets. tardy_bpf::program writes these 16 bytes. */
struct settings {
	/* The trial's, as the frames have it: in the order of the wire. */
	__u8 nonce[8];
	/* EtherType of the frames, in this machine's order. */
	__u16 ethertype;
	/* Number of the stream. */
	__u8 stream;
	/* The kernel has bpf_ktime_get_tai_ns(). */
	__u8 has_tai;
	/* What to ask the device, as bits: HW_TIME and so on. */
	__u32 hints;
};

const volatile struct settings settings = {};

/* The head of a test frame, big endian. */
struct head {
	__u32 magic;
	__u8 kind;
	__u8 stream;
	__u8 size[2];
	__u8 nonce[8];
	__u8 seq[4];
	__u8 check[4];
} __attribute__((packed));

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} xsks_map SEC(".maps");

static __always_inline int is_tag(__u16 type)
{
	return type == 0x8100 || type == 0x88a8 || type == 0x9100;
}

/* The head of a test frame that is for this receiver; nothing if the packet is anything else. */
static __always_inline const struct head *test_frame(const __u8 *data, const __u8 *end)
{
	const __u8 *at = data + UNTAGGED - 2;
	const struct head *head;
	__u16 type = 0;
	int tags;

#pragma unroll
	for (tags = 0; tags <= MOST_TAGS; tags++) {
		if (at + 2 > end)
			return 0;
		type = (__u16)(at[0] << 8 | at[1]);
		if (type == settings.ethertype)
			break;
		if (!is_tag(type))
			return 0;
		at += 4;
	}
	if (type != settings.ethertype)
		return 0;
	head = (const struct head *)(at + 2);
	if ((const __u8 *)(head + 1) > end || head->magic != __builtin_bswap32(MAGIC))
		return 0;
	/*
	 * Another stream of this trial has a receiver of its own. A frame of another trial belongs to
	 * nobody: it comes through, so that it is counted.
	 */
	if (head->stream != settings.stream) {
		int n, same = 1;

#pragma unroll
		for (n = 0; n < 8; n++)
			same &= head->nonce[n] == settings.nonce[n];
		if (same)
			return 0;
	}
	return head;
}

static __always_inline __u64 now(void)
{
	return settings.has_tai ? bpf_ktime_get_tai_ns() : bpf_ktime_get_ns();
}

/*
 * Takes off what a program of somebody else left before the packet on its way here, which could
 * pass for this program's stamp where this one finds no room for its own.
 */
static __always_inline void drop_metadata(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *meta = (void *)(long)ctx->data_meta;

	/* A driver without room before the packet has `meta` behind `data`. */
	if (meta < data)
		bpf_xdp_adjust_meta(ctx, (int)(data - meta));
}

#ifdef DEVICE_HINTS
/* As crates/model/src/xdp.rs numbers them. */
#define HW_TIME 1
#define HASH 2
#define VLAN 4
/* What the kernel answers for a driver that does not offer a hint: -EOPNOTSUPP. */
#define NOT_OFFERED -95

enum xdp_rss_hash_type {
	XDP_RSS_TYPE_NONE = 0,
};

/* Linux 6.3 has the first two, and 6.8 the third. */
extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx, __u64 *timestamp) __ksym __weak;
extern int bpf_xdp_metadata_rx_hash(const struct xdp_md *ctx, __u32 *hash,
				    enum xdp_rss_hash_type *rss_type) __ksym __weak;
extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __be16 *vlan_proto,
					__u16 *vlan_tci) __ksym __weak;

/*
 * Asks the device, before the area is made larger: some drivers keep the answer in the same bytes.
 * The verifier knows the settings and drops what was not asked for.
 */
static __always_inline void ask_device(const struct xdp_md *ctx, struct rx_hints *hints)
{
	if (settings.hints & HW_TIME && bpf_ksym_exists(bpf_xdp_metadata_rx_timestamp)) {
		__u64 time = 0;
		int code = bpf_xdp_metadata_rx_timestamp(ctx, &time);

		hints->offers_hw_time = code != NOT_OFFERED;
		/* veth answers without an error, and with 0, if no device stamped the packet. */
		hints->has_hw_time = !code && time;
		hints->hw_time = time;
	}
	if (settings.hints & HASH && bpf_ksym_exists(bpf_xdp_metadata_rx_hash)) {
		enum xdp_rss_hash_type type = 0;
		__u32 hash = 0;
		int code = bpf_xdp_metadata_rx_hash(ctx, &hash, &type);

		hints->offers_hash = code != NOT_OFFERED;
		hints->has_hash = !code;
		hints->hash = hash;
		hints->hash_type = type;
	}
	if (settings.hints & VLAN && bpf_ksym_exists(bpf_xdp_metadata_rx_vlan_tag)) {
		__be16 proto = 0;
		__u16 tci = 0;
		int code = bpf_xdp_metadata_rx_vlan_tag(ctx, &proto, &tci);

		hints->offers_vlan = code != NOT_OFFERED;
		hints->has_vlan = !code;
		hints->vlan_proto = __builtin_bswap16(proto);
		hints->vlan_tci = tci;
	}
}

/* Leaves a struct before the packet. 0 if there is no room: older kernels allow 32 bytes. */
#define LEAVE(ctx, struct_of) ({ \
	__typeof__(struct_of) *to; \
	int left = !bpf_xdp_adjust_meta(ctx, -(int)sizeof(*to)); \
	to = (void *)(long)(ctx)->data_meta; \
	left = left && (void *)(to + 1) <= (void *)(long)(ctx)->data; \
	if (left) \
		*to = (struct_of); \
	left; \
})
#endif

SEC("xdp")
int tardy_rx(struct xdp_md *ctx)
{
	/* Read once: clang would merge two reads into a form that the verifier refuses. */
	__u32 queue = ctx->rx_queue_index;
	const struct head *head;
	__u64 time;
	__u32 seq;
	__u8 kind;
	__u32 cpu;
	void *data, *meta;

	barrier_var(queue);
	head = test_frame((void *)(long)ctx->data, (void *)(long)ctx->data_end);
	if (!head)
		return XDP_PASS;
	time = now();
	cpu = bpf_get_smp_processor_id();
	kind = head->kind;
	seq = (__u32)head->seq[0] << 24 | head->seq[1] << 16 | head->seq[2] << 8 | head->seq[3];

#ifdef DEVICE_HINTS
	struct rx_hints known = { .time = time, .cpu = cpu, .queue = queue };

	ask_device(ctx, &known);
#endif
	drop_metadata(ctx);
#ifdef DEVICE_HINTS
	if (kind & MARK) {
		struct mark_hints marked;

		/* The members that both have are at the same places. */
		__builtin_memcpy(&marked, &known, sizeof(known));
		marked.seq = seq;
		marked.btf_id = bpf_core_type_id_local(struct mark_hints);
		if (LEAVE(ctx, marked))
			goto on;
	} else {
		known.btf_id = bpf_core_type_id_local(struct rx_hints);
		if (LEAVE(ctx, known))
			goto on;
	}
#endif
	/* Where a device leaves no room before the packet it goes on without a stamp. */
	if (kind & MARK) {
		struct mark *mark;

		if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*mark)))
			goto on;
		data = (void *)(long)ctx->data;
		meta = (void *)(long)ctx->data_meta;
		mark = meta;
		if ((void *)(mark + 1) > data)
			return XDP_ABORTED;
		mark->time = time;
		mark->cpu = cpu;
		mark->queue = queue;
		mark->seq = seq;
		mark->btf_id = bpf_core_type_id_local(struct mark);
	} else {
		struct rx_time *rx;

		if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*rx)))
			goto on;
		data = (void *)(long)ctx->data;
		meta = (void *)(long)ctx->data_meta;
		rx = meta;
		if ((void *)(rx + 1) > data)
			return XDP_ABORTED;
		rx->time = time;
		rx->cpu = cpu;
		rx->queue = queue;
		rx->btf_id = bpf_core_type_id_local(struct rx_time);
	}
on:
	/* A queue without a socket leaves the frame to the kernel. */
	return bpf_redirect_map(&xsks_map, queue, XDP_PASS);
}
