// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guest layer: the built binary runs experiments inside QEMU, on a kernel of Debian's.

// What a test of the built binary needs, as the layer netns has it.
#[allow(dead_code)]
#[path = "../netns/command.rs"]
mod command;
mod exact;
mod guest;
mod kernels;
mod machine;
mod refused;
mod shapers;
