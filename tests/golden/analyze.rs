// SPDX-License-Identifier: MIT OR Apache-2.0
//! From samples to a judged table: every figure against a plain reckoning of it, every verdict against its injected cause.

mod cells;
mod delta;
mod envelope;
pub(crate) mod fixture;
mod histogram;
mod loads;
mod naive;
mod outcomes;
mod placement;
mod quantiles;
mod repeats;
mod validity;
