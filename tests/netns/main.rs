// SPDX-License-Identifier: MIT OR Apache-2.0
//! Netns layer: the real kernel, in namespaces that the test makes.

mod command;
mod kill;
mod lab;
mod run;
mod truth;
mod wire;
mod wrong;
