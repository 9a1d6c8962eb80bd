// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices that an experiment needs and that only its guest gets: modules in addition to those that
//! every guest has, and network devices of QEMU's. Pure.

use super::error::GuestError;
use super::extra::{EXTRAS, Extra};
use super::kernel::Kernel;
use crate::path::{self, InGuest};
use std::collections::{BTreeMap, BTreeSet};
use tardy_model::copy::CopyModule;
use tardy_model::path::PathKind;
use tardy_spec::experiment::{Cell, Experiment, Setup};

/// What the experiment's paths need, each kind with the first of its cells.
fn needed(experiment: &Experiment) -> impl Iterator<Item = (&Cell, &'static InGuest)> {
    let mut first: BTreeMap<PathKind, &Cell> = BTreeMap::new();
    for cell in &experiment.cells {
        first.entry(cell.setup.path.kind).or_insert(cell);
    }
    first.into_iter().map(|(kind, cell)| (cell, &path::kind(kind).guest))
}

/// Modules that the experiment's paths need, in the order in which they are loaded.
pub fn modules(experiment: &Experiment) -> Vec<&'static str> {
    let of_paths = needed(experiment).flat_map(|(_, guest)| (guest.modules)()).copied();
    let tests: BTreeSet<&str> =
        experiment.cells.iter().filter_map(|cell| test(&cell.setup)).map(CopyModule::name).collect();
    let controllers = [CONTROLLERS].into_iter().filter(|_| !tests.is_empty());
    of_paths.chain(controllers).chain(tests.iter().copied()).collect()
}

/// What builds tests of DMA controllers.
const DMATEST: &str = "dmatest";
/// The controllers that they test.
const CONTROLLERS: &str = "tardy_softdma";

/// The test of DMA controllers that copies in a cell, if one does.
fn test(setup: &Setup) -> Option<CopyModule> {
    setup.copy.as_ref().and_then(|copy| copy.backend.module())
}

/// True if the waits of the kernel's threads are recorded, which takes a file system for its
/// traces.
pub fn traces(experiment: &Experiment) -> bool {
    experiment.cells.iter().any(|cell| test(&cell.setup).is_some())
}

/// Kernel modules that Debian does not build, that cells need and that were not built for this
/// fetched kernel: what builds each, and the cells. Nobody knows what other kernels have built in.
pub fn not_built<'a>(experiment: &'a Experiment, kernel: &Kernel) -> Vec<(&'static Extra, Vec<&'a str>)> {
    let Some(sums) = &kernel.sums else { return Vec::new() };
    let is_there = |name: &str| {
        let file = format!("{name}.ko");
        sums.of.keys().any(|path| path.file_name().is_some_and(|of| of == file.as_str()))
    };
    let wanted = modules(experiment);
    let of = |extra: &'static Extra| {
        let needs = |cell: &&Cell| match extra.name {
            DMATEST => test(&cell.setup).is_some(),
            _ => (path::kind(cell.setup.path.kind).guest.modules)() == extra.modules,
        };
        let cells: Vec<&str> = experiment.cells.iter().filter(needs).map(|cell| cell.id.as_str()).collect();
        let mut of_it = extra.modules.iter().filter(|module| wanted.contains(module));
        let lacks = of_it.any(|module| !is_there(module)) && !cells.is_empty();
        lacks.then_some((extra, cells))
    };
    EXTRAS.iter().filter_map(of).collect()
}

/// Programs that the experiment's paths need.
pub fn programs(experiment: &Experiment) -> Vec<&'static str> {
    needed(experiment).flat_map(|(_, guest)| guest.programs).copied().collect()
}

/// Arguments for QEMU in addition to the usual ones.
pub fn arguments(experiment: &Experiment) -> Vec<String> {
    let words: Vec<&str> = needed(experiment).flat_map(|(_, guest)| guest.arguments.split_whitespace()).collect();
    let mut pairs: Vec<&[&str]> = Vec::new();
    for pair in words.chunks(2) {
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    pairs.concat().into_iter().map(str::to_owned).collect()
}

/// Words for the guest's kernel that the experiment's paths need.
pub fn kernel(experiment: &Experiment) -> String {
    let words: Vec<&str> =
        needed(experiment).map(|(_, guest)| guest.kernel).filter(|words| !words.is_empty()).collect();
    words.join(" ")
}

/// Refuses what this QEMU does not have, by what it says of its version.
///
/// # Errors
/// [`GuestError::NotInGuest`].
pub fn check(experiment: &Experiment, version: &str) -> Result<(), GuestError> {
    let words = version.split_once("version ").map_or("", |(_, rest)| rest);
    let major = words.split('.').next().and_then(|major| major.parse::<u32>().ok());
    for (cell, guest) in needed(experiment) {
        if let Some((since, what)) = guest.since.filter(|(since, _)| major.is_none_or(|major| major < *since)) {
            // Where it is the one that was built for guests, an earlier version of tardy built it.
            let help = match cell.setup.path.traits().devices.backend() {
                Some(_) => "build the newer one: tardy guest fetch --with qemu",
                None => "build one that does: tardy guest fetch --with qemu; or use path.kind = \"veth\"",
            };
            return Err(GuestError::NotInGuest {
                cell: cell.id.clone(),
                why: format!(
                    "its path is {what}, which QEMU emulates from version {since}.0 on, and this is {version}: {help}"
                ),
            });
        }
    }
    Ok(())
}
