// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets that listen in the network namespace of the calling thread, whoever has them, as the
//! kernel lists them in `/proc/thread-self/net` (proc_pid_net(5)).

use std::collections::BTreeSet;
use std::fs;

/// The tables, each with the state of a socket that waits for whoever comes, of
/// include/net/tcp_states.h: TCP_LISTEN, and TCP_CLOSE of a UDP socket that is bound and not
/// connected.
const TABLES: [(&str, &str); 4] = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];

/// Inodes of those over TCP and UDP, of both IP versions. A kernel without IPv6 has fewer tables.
pub fn sockets() -> BTreeSet<u64> {
    let each = |(table, state): (&str, &'static str)| {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
        inodes(&text, state)
    };
    TABLES.into_iter().flat_map(each).collect()
}

/// Of the lines in this state.
fn inodes(text: &str, state: &str) -> Vec<u64> {
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields.get(3) == Some(&state)).then(|| fields.get(9)?.parse().ok()).flatten()
    };
    text.lines().skip(1).filter_map(inode).collect()
}
