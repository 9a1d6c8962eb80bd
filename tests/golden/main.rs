// SPDX-License-Identifier: MIT OR Apache-2.0
//! Golden layer: bytes and text, no machine needed.

mod deps;
mod frame;
mod spec;
mod analyze;
mod store;
mod report;
mod plan;
