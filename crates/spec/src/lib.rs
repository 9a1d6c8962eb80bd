// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiment file → checked [`Experiment`]. An error names file, line and column and the mend.

pub mod experiment;
