// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What BPF programs on a path do while packets pass, seen from the kernel's own tracepoints: lines
 * that they print, redirects that fail, packets that they abort. A program's compiled code does not
 * say that reliably. tardy_bpf::pitfalls loads and reads this.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The part of the kernel's structs that is read; the loader finds the members by their names. */
#define BY_NAME __attribute__((preserve_access_index))

struct ns_common {
	unsigned int inum;
} BY_NAME;
struct net {
	struct ns_common ns;
} BY_NAME;
typedef struct {
	struct net *net;
} possible_net_t;
struct net_device {
	int ifindex;
	possible_net_t nd_net;
} BY_NAME;
struct bpf_prog_aux {
	__u32 id;
} BY_NAME;
struct bpf_prog {
	struct bpf_prog_aux *aux;
} BY_NAME;

#define FRAMES 12
#define REDIRECT 1
#define EXCEPTION 2
#define FORWARD 3

/* Return addresses at a line that was printed, the latest first. */
struct printed {
	__u64 at[FRAMES];
};

/* Something that happened to packets. tardy_bpf::pitfalls reads these 28 bytes. */
struct event {
	__u32 kind;
	/* Id of the program; 0 of FORWARD, which names none. */
	__u32 who;
	/* Number of the device that they came from. */
	__u32 device;
	/* Number of the device that they were to go to, or key in a map. */
	__u32 to;
	/* Type of that map, 0 for none. */
	__u32 map;
	/* errno; of EXCEPTION what the program decided. */
	__s32 code;
	/* Namespace of the device that they came from: another one may have that number too. */
	__u32 space;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, struct printed);
	__type(value, __u64);
} lines SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct event);
	__type(value, __u64);
} events SEC(".maps");

static __always_inline void add(void *map, const void *key, __u64 count)
{
	__u64 *known = bpf_map_lookup_elem(map, key);

	/* Another CPU may put the key there meanwhile: its count must not be overwritten. */
	if (!known) {
		if (!bpf_map_update_elem(map, key, &count, BPF_NOEXIST))
			return;
		known = bpf_map_lookup_elem(map, key);
	}
	if (known)
		__sync_fetch_and_add(known, count);
}

SEC("raw_tp/bpf_trace_printk")
int on_line(void *ctx)
{
	struct printed printed = {};

	bpf_get_stack(ctx, printed.at, sizeof(printed.at), 0);
	add(&lines, &printed, 1);
	return 0;
}

SEC("tp_btf/xdp_redirect_err")
int on_redirect(__u64 *ctx)
{
	const struct net_device *device = (const struct net_device *)ctx[0];
	const struct bpf_prog *program = (const struct bpf_prog *)ctx[1];
	struct event event = { .kind = REDIRECT };

	event.who = program->aux->id;
	event.device = device->ifindex;
	event.code = (__s32)ctx[3];
	event.map = (__u32)ctx[4];
	event.to = (__u32)ctx[6];
	event.space = device->nd_net.net->ns.inum;
	add(&events, &event, 1);
	return 0;
}

SEC("tp_btf/xdp_exception")
int on_exception(__u64 *ctx)
{
	const struct net_device *device = (const struct net_device *)ctx[0];
	const struct bpf_prog *program = (const struct bpf_prog *)ctx[1];
	struct event event = { .kind = EXCEPTION };

	event.who = program->aux->id;
	event.device = device->ifindex;
	event.code = (__s32)ctx[2];
	event.space = device->nd_net.net->ns.inum;
	add(&events, &event, 1);
	return 0;
}

/* The device that packets were redirected to did not take all of them. */
SEC("tp_btf/xdp_devmap_xmit")
int on_forward(__u64 *ctx)
{
	const struct net_device *from = (const struct net_device *)ctx[0];
	const struct net_device *to = (const struct net_device *)ctx[1];
	struct event event = { .kind = FORWARD };
	int drops = (int)ctx[3];

	if (drops <= 0)
		return 0;
	event.space = from->nd_net.net->ns.inum;
	event.device = from->ifindex;
	event.to = to->ifindex;
	event.code = (__s32)ctx[4];
	add(&events, &event, drops);
	return 0;
}

/* What one line costs is measured on this: as it is, and without the call. Nothing loads it else. */
SEC("?xdp")
int prints(struct xdp_md *ctx)
{
	bpf_printk("tardy measures what printing a line costs: %u bytes", (__u32)(ctx->data_end - ctx->data));
	return XDP_PASS;
}
