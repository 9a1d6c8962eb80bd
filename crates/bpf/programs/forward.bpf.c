// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What makes a path of two network devices: every frame that arrives at the one leaves by the
 * other, as it is. tardy_bpf::forward loads this for each of the two and puts the device's number
 * into the map at that moment: numbers change from boot to boot.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The device by which frames leave. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} leaves_by SEC(".maps");

SEC("?xdp")
int tardy_forward(struct xdp_md *ctx)
{
	return bpf_redirect_map(&leaves_by, 0, XDP_DROP);
}

/*
 * The same with a line left in it that somebody printed to find a mistake. What a line costs is
 * measured on one like it (watch.bpf.c).
 */
SEC("?xdp")
int tardy_printing(struct xdp_md *ctx)
{
	bpf_printk("tardy forwards what somebody still prints: %u bytes", (__u32)(ctx->data_end - ctx->data));
	return bpf_redirect_map(&leaves_by, 0, XDP_DROP);
}
