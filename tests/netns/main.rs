// SPDX-License-Identifier: MIT OR Apache-2.0
//! Netns layer: the real kernel, in namespaces that the test makes.

mod answered;
mod cards;
mod command;
mod doctor;
mod elsewhere;
mod foreign;
mod harm;
mod lab;
mod leftovers;
mod loads;
mod messages;
mod more_machines;
mod other_user;
mod own_trace;
mod packet;
mod peers;
mod pitfalls;
mod placement;
mod ptp;
mod run;
mod steward;
mod truth;
mod wire;
mod wrong;
mod xdp;
mod xdp_core;
mod xdp_object;
mod xdp_refused;
mod xdp_send;
