// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ready-made experiments that the binary carries: one line each.

/// Name and text of each.
pub const READY_MADE: &[(&str, &str)] = &[
    ("host-to-host", include_str!("../../../experiments/host-to-host.toml")),
    ("roundtrip-load", include_str!("../../../experiments/roundtrip-load.toml")),
    ("car", include_str!("../../../experiments/car.toml")),
    ("tsn-qdiscs", include_str!("../../../experiments/tsn-qdiscs.toml")),
    ("etf-drops", include_str!("../../../experiments/etf-drops.toml")),
    ("mqprio-etf", include_str!("../../../experiments/mqprio-etf.toml")),
    ("igb", include_str!("../../../experiments/igb.toml")),
    ("waits", include_str!("../../../experiments/waits.toml")),
];
