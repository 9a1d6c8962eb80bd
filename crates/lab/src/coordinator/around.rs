// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the coordinator reads from the hosts just before a trial and just after it, and keeps with
//! the trial's packets.

use super::record::States;
use crate::host::ask::{Observe, Observed};
use crate::host::hosts::Hosts;
use crate::host::{Away, HostId};
use crate::shaper::watch::Readings;
use crate::softirq::Watch;
use crate::trial::Outside;
use std::collections::BTreeMap;
use tardy_host::state::Moment;
use tardy_model::machine::MachineState;

/// Looks at the hosts around one trial.
pub(super) struct Around<'a, 'r, 'h> {
    pub(super) hosts: &'r mut Hosts<'h>,
    pub(super) watch: Watch<'a>,
    pub(super) readings: Readings<'a>,
    /// Programs of the user's are among the loads.
    pub(super) programs: bool,
    /// What the hosts had done, of each moment that is over.
    pub(super) states: Vec<BTreeMap<HostId, MachineState>>,
}

impl Outside for Around<'_, '_, '_> {
    fn look(&mut self) -> Result<(), (HostId, Away)> {
        self.read(true)
    }

    fn end_leftovers(&mut self) {
        self.hosts.end_leftovers();
    }
}

impl<'a> Around<'a, '_, '_> {
    /// Reads the state of all hosts; `whole` also at what tardy watches over in the trial itself.
    fn read(&mut self, whole: bool) -> Result<(), (HostId, Away)> {
        let moment = if self.states.is_empty() { Moment::Before } else { Moment::Behind };
        let (watch, readings, programs) = (&self.watch, &self.readings, self.programs);
        let observed = self.hosts.observe(|host| Observe {
            moment,
            programs,
            polled: if whole { watch.polled(host) } else { Vec::new() },
            commands: if whole { readings.commands(host) } else { Vec::new() },
        })?;
        let mut states = BTreeMap::new();
        for (host, Observed { state, napi, says }) in observed {
            if whole {
                self.watch.saw(moment, host, &napi);
                self.readings.take(host, says);
            }
            states.insert(host, state);
        }
        self.states.push(states);
        Ok(())
    }

    /// The trial is over, however it ended. One that broke before its end has states all the same,
    /// of now. A host that cannot be asked any more has none; the trial itself says that it is
    /// gone.
    ///
    /// # Errors
    /// If this machine itself cannot be asked.
    pub(super) fn ended(mut self) -> Result<(States, Watch<'a>, Readings<'a>), Away> {
        while self.states.len() < 2 {
            if self.read(false).is_err() {
                let moment = if self.states.is_empty() { Moment::Before } else { Moment::Behind };
                let (polled, commands) = (Vec::new(), Vec::new());
                let what = Observe { moment, programs: self.programs, polled, commands };
                let here = self.hosts.own().observe(&what)?.state;
                self.states.push(BTreeMap::from([(HostId::HERE, here)]));
            }
        }
        let mut both = self.states.into_iter();
        let [mut before, mut after] = [both.next().unwrap_or_default(), both.next().unwrap_or_default()];
        let mut of = |host| Some([before.remove(&host)?, after.remove(&host)?]);
        let here = of(HostId::HERE);
        let ids: Vec<HostId> = self.hosts.ids().into_iter().skip(1).collect();
        let others = ids.into_iter().filter_map(|id| Some((id, (self.hosts.name(id)?.to_owned(), of(id)?)))).collect();
        let gone = || Away { host: HostId::HERE.to_string(), says: "its state was not read".to_owned() };
        Ok((States { here: here.ok_or_else(gone)?, others }, self.watch, self.readings))
    }
}
