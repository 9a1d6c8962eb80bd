// SPDX-License-Identifier: MIT OR Apache-2.0
//! From trials to results: the same way for a run under way and for a run folder, so that a killed
//! run is judged like a finished one. And what can be known of a run before it begins.

mod folder;
pub mod foresight;
mod judge;

pub use folder::{folder, folder_with, trial, written};
pub use judge::{Added, Judge, Judged, Traces, facts, in_guest, refused, short};
