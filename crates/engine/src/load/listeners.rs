// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who listens in this network namespace: so a program that serves is known to be up.

use std::collections::BTreeSet;
use std::fs;

/// Inodes of the sockets that listen, TCP and UDP of both IP versions.
pub(super) fn now() -> BTreeSet<u64> {
    // States of include/net/tcp_states.h: TCP_LISTEN, and TCP_CLOSE for a UDP socket that is bound
    // and not connected.
    let files = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];
    let each = |(file, state): (&str, &'static str)| {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        inodes(&text, state)
    };
    files.into_iter().flat_map(each).collect()
}

/// Of the lines in this state.
fn inodes(text: &str, state: &str) -> Vec<u64> {
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields.get(3) == Some(&state)).then(|| fields.get(9)?.parse().ok()).flatten()
    };
    text.lines().skip(1).filter_map(inode).collect()
}
