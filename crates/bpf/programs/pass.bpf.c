// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Lets every frame pass. tardy_bpf::pass attaches it to a device to see whether that takes an XDP
 * program in a mode.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("xdp")
int tardy_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}
