// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run under way: what all its parts know, and what they tell of it.

use super::agents::Standing;
use crate::host::clocks::OffsetSource;
use crate::host::hosts::Hosts;
use crate::machine::FactsByHost;
use crate::run::{Event, Sink, What};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tardy_model::machine::RulerRecord;
use tardy_model::port::Port;
use tardy_spec::experiment::{self, Cell, Experiment};
use crate::plan::Kinds;

/// What a run needs in addition to the experiment.
pub struct Options<'a> {
    /// Version and build, as every agent must greet with.
    pub version: &'a str,
    /// Set by a signal: finish what was begun and stop.
    pub stop: &'a AtomicBool,
    /// What the kinds of paths and stations do.
    pub kinds: Kinds,
    /// Compares the hosts' clocks, for each path anew; [`one_host`](crate::host::clocks::one_host)
    /// where there is one.
    pub clocks: fn() -> Box<dyn OffsetSource>,
}

/// The run under way.
pub(super) struct Run<'a, 'h> {
    pub(super) experiment: &'a Experiment,
    pub(super) options: &'a Options<'a>,
    pub(super) sink: &'a mut dyn Sink,
    pub(super) hosts: &'a mut Hosts<'h>,
    pub(super) refused: Vec<String>,
    pub(super) found: FactsByHost,
    /// When the hosts' clocks among them were read.
    pub(super) clocks_read: std::time::Instant,
    pub(super) standing: Standing,
    pub(super) measured: bool,
    pub(super) ruler: Vec<RulerRecord>,
    /// Paths and ports on which it is known what tx stamps add.
    pub(super) observed: Vec<(experiment::Path, Vec<Port>)>,
    pub(super) of: u32,
}

impl Run<'_, '_> {
    pub(super) fn stopped(&self) -> bool {
        self.options.stop.load(Relaxed)
    }

    /// Something happened just now.
    pub(super) fn tell(&mut self, what: What) {
        self.sink.event(Event::now(what));
    }

    /// This machine cannot run a cell; the others go on.
    pub(super) fn refuse(&mut self, cell: &Cell, why: String) {
        self.refused.push(cell.id.clone());
        self.tell(What::Refused { cell: cell.id.clone(), why });
    }

    pub(super) fn tell_commands(&mut self) {
        self.hosts.ran().into_iter().for_each(|event| self.sink.event(event));
    }
}
