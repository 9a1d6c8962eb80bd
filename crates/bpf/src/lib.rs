// SPDX-License-Identifier: MIT OR Apache-2.0
//! BPF: what XDP programs leave before packets, and the types (BTF) that describe it.

pub mod btf;
pub mod hints;
pub mod object;
pub mod source;
