// SPDX-License-Identifier: MIT OR Apache-2.0
//! The virtual machines of an experiment. A machine lives for the whole run, so all cells say
//! together what it has; and stations of one name that differ are several machines.

use crate::experiment::{Cell, Experiment};
use std::collections::BTreeMap;
use tardy_model::machine::HostId;
use tardy_model::station::Machine;

/// Numbers the machines of all cells as hosts, and gives each what is behind its network devices
/// in any of the cells.
pub(crate) fn assign(cells: &mut [Cell]) {
    let mut known: Vec<(String, Machine)> = Vec::new();
    // As the cells have them: without what is behind their devices.
    for (name, machine, backend) in each(cells) {
        match known.iter_mut().find(|(of, other)| *of == name && is_same(other, &machine)) {
            Some((_, other)) => other.backends.extend(backend),
            None => known.push((name, Machine { backends: backend.into_iter().collect(), ..machine })),
        }
    }
    for (name, station) in cells.iter_mut().flat_map(|cell| cell.setup.stations.iter_mut()) {
        let Some(machine) = &station.machine else { continue };
        let at = known.iter().position(|(of, other)| of == name && is_same(other, machine));
        let Some((at, id)) = at.and_then(|at| Some((at, HostId::numbered(u16::try_from(at + 1).ok()?)))) else {
            continue;
        };
        station.host = id;
        station.machine = Some(known[at].1.clone());
    }
}

fn each(cells: &[Cell]) -> Vec<(String, Machine, Option<tardy_model::path::Backend>)> {
    let of = |cell: &Cell| {
        let backend = cell.setup.path.traits().devices.backend();
        let machines = cell.setup.stations.iter();
        let machines = machines.filter_map(|(name, of)| Some((name.clone(), of.machine.clone()?)));
        machines.map(|(name, machine)| (name, machine, backend)).collect::<Vec<_>>()
    };
    cells.iter().flat_map(of).collect()
}

fn is_same(one: &Machine, other: &Machine) -> bool {
    Machine { backends: other.backends.clone(), ..one.clone() } == *other
}

impl Experiment {
    /// The virtual machines of all cells that are built, by their hosts, each with the name that
    /// records have for it: its station's, and for a further one of that name a number behind it.
    pub fn machines(&self) -> BTreeMap<HostId, (String, Machine)> {
        let mut machines: BTreeMap<HostId, (String, Machine)> = BTreeMap::new();
        let built = self.cells.iter().filter(|cell| !cell.setup.is_simulated());
        for (name, station) in built.flat_map(|cell| &cell.setup.stations) {
            if let Some(machine) = &station.machine
                && !machines.contains_key(&station.host)
            {
                let before = machines.values().filter(|(of, _)| of.split('.').next() == Some(name)).count();
                let name = if before == 0 { name.clone() } else { format!("{name}.{}", before + 1) };
                machines.insert(station.host, (name, machine.clone()));
            }
        }
        machines
    }
}
