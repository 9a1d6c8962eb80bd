// SPDX-License-Identifier: MIT OR Apache-2.0
//! From trials to results: the same way for a run under way and for a run folder, so that a killed
//! run is judged like a finished one. And what can be told of a run before it begins.

mod facts;
mod folder;
pub mod foresight;
mod judge;
pub mod traces;
mod verdicts;

pub use facts::facts;
pub use folder::{folder, trial, written};
pub use judge::{Judge, Judged};
pub use verdicts::{in_guest, refused, short};
