// SPDX-License-Identifier: MIT OR Apache-2.0
//! From samples to a judged table: every figure against a plain reckoning of it, every verdict
//! against its injected cause.

mod cells;
pub(crate) mod fixture;
mod harm;
mod hosts;
mod in_order;
mod loads;
mod loss;
mod naive;
mod noise;
mod own_trace;
mod placement;
mod process;
mod quantiles;
mod repeats;
mod settings;
mod threads;
mod validity;
