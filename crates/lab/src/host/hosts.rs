// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hosts of a run, by their ids. What a plan says is sent to the host that it is for.

use super::ask::{Ask, Observe, Observed};
use super::{ApplyError, Away, Host, HostId, LookError};
use crate::machine::FactsByHost;
use crate::not_found::NotFound;
use crate::run::Event;
use crate::step::{Question, Step};
use crate::undo::{PutBack, UndoError};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tardy_model::manifest::{HostEntry, ReadBack};
use tardy_model::verdict::Figure;
use thiserror::Error;

/// The hosts of a run, a tree: a guest is below the host that runs its processors, and everything
/// else is below nothing. The coordinator's own host is always among them.
pub struct Hosts<'h> {
    here: &'h mut dyn Host,
    /// Each behind its parent.
    others: Vec<Other<'h>>,
    /// Guests of which nothing is asked: they are stopped, or bystanders.
    aside: BTreeSet<HostId>,
}

/// Another host than the coordinator's.
struct Other<'h> {
    id: HostId,
    /// As the user calls it.
    name: String,
    /// The host that runs its processors, where it is a guest.
    parent: Option<HostId>,
    /// What is known of it from outside, for the manifest.
    facts: BTreeMap<String, Figure>,
    host: Box<dyn Host + 'h>,
}

/// A host that cannot be one of a run's. What is sent to it would reach another one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HostsError {
    /// The coordinator's own host is there from the beginning.
    #[error("host `{name}` cannot have the id of this machine: give it one of its own")]
    Here { name: String },
    /// Another host has its id.
    #[error("host `{name}` cannot have the id of `{other}` ({id}): give it one of its own")]
    Id {
        id: HostId,
        name: String,
        /// The name of the host that has the id.
        other: String,
    },
    /// Another host has its name, under which records keep what a host did.
    #[error("two hosts cannot both be called `{name}`: rename one of them")]
    Name { name: String },
    /// Its parent is none of the run's hosts.
    #[error(transparent)]
    NotFound(#[from] NotFound),
}

impl<'h> Hosts<'h> {
    /// A run on this machine alone.
    pub fn here(here: &'h mut dyn Host) -> Hosts<'h> {
        Hosts { here, others: Vec::new(), aside: BTreeSet::new() }
    }

    /// Also another machine, by the name that the user has for it.
    ///
    /// # Errors
    /// If another host of the run has this id or this name.
    pub fn and(self, id: HostId, name: &str, host: impl Host + 'h) -> Result<Hosts<'h>, HostsError> {
        self.with(id, name, None, BTreeMap::new(), host)
    }

    /// Also a guest, whose processors another host runs, with what that host knows of it.
    ///
    /// # Errors
    /// If that host is none of the run's, or another one has this id or this name.
    pub fn and_guest(
        mut self,
        id: HostId,
        name: &str,
        parent: HostId,
        facts: BTreeMap<String, Figure>,
        host: impl Host + 'h,
    ) -> Result<Hosts<'h>, HostsError> {
        self.at(parent)?;
        self.with(id, name, Some(parent), facts, host)
    }

    fn with(
        mut self,
        id: HostId,
        name: &str,
        parent: Option<HostId>,
        facts: BTreeMap<String, Figure>,
        host: impl Host + 'h,
    ) -> Result<Hosts<'h>, HostsError> {
        let name = name.to_owned();
        if id == HostId::HERE {
            return Err(HostsError::Here { name });
        }
        if let Some(other) = self.other(id) {
            return Err(HostsError::Id { id, name, other: other.name.clone() });
        }
        if self.others.iter().any(|other| other.name == name) {
            return Err(HostsError::Name { name });
        }
        self.others.push(Other { id, name, parent, facts, host: Box::new(host) });
        Ok(self)
    }

    /// The host of this id.
    ///
    /// # Errors
    /// If it is none of the run's.
    pub fn at(&mut self, id: HostId) -> Result<&mut (dyn Host + 'h), NotFound> {
        match id {
            HostId::HERE => Ok(self.here),
            id => self
                .others
                .iter_mut()
                .find(|other| other.id == id)
                .map_or(Err(NotFound::Host(id)), |other| Ok(&mut *other.host)),
        }
    }

    /// The host that the coordinator runs on.
    pub fn own(&mut self) -> &mut (dyn Host + 'h) {
        self.here
    }

    /// All, this machine first and each guest behind the host that runs it.
    fn all(&mut self) -> impl DoubleEndedIterator<Item = &mut (dyn Host + 'h)> {
        let others = self.others.iter_mut().map(|other| &mut *other.host);
        std::iter::once::<&mut (dyn Host + 'h)>(self.here).chain(others)
    }

    /// All ids, this machine's first and each guest's behind that of the host that runs it.
    pub fn ids(&self) -> Vec<HostId> {
        [HostId::HERE].into_iter().chain(self.others.iter().map(|other| other.id)).collect()
    }

    /// The ids of those that can be asked at this moment, in the same order.
    pub fn awake(&self) -> Vec<HostId> {
        self.ids().into_iter().filter(|id| !self.aside.contains(id)).collect()
    }

    /// The name that the user has for another host than this machine.
    pub fn name(&self, id: HostId) -> Option<&str> {
        self.other(id).map(|other| other.name.as_str())
    }

    /// The host that runs a guest's processors; `None` for a machine of its own.
    pub fn parent(&self, id: HostId) -> Option<HostId> {
        self.other(id)?.parent
    }

    fn other(&self, id: HostId) -> Option<&Other<'h>> {
        self.others.iter().find(|other| other.id == id)
    }

    /// What the other hosts are, by name, for the run's manifest.
    ///
    /// # Errors
    /// Of the first host that cannot be asked any more.
    pub fn describe(&mut self) -> Result<BTreeMap<String, HostEntry>, Away> {
        let named = |id: HostId| self.name(id).map_or_else(|| id.to_string(), str::to_owned);
        let parents: Vec<_> = self.others.iter().map(|other| other.parent.map(named)).collect();
        let mut entries = BTreeMap::new();
        for (other, parent) in self.others.iter_mut().zip(parents) {
            let mut entry = HostEntry { parent, ..other.host.describe()? };
            entry.machine.extend(other.facts.clone());
            entries.insert(other.name.clone(), entry);
        }
        Ok(entries)
    }

    /// Has the guests go on in which a cell has stations, and its bystanders. The others that this
    /// machine runs are stopped.
    ///
    /// # Errors
    /// If one cannot be stopped, or go on.
    pub fn wake(&mut self, stations: &BTreeSet<HostId>, bystanders: &BTreeSet<HostId>) -> Result<(), Away> {
        let guests = self.others.iter().filter(|other| other.parent == Some(HostId::HERE)).map(|other| other.id);
        self.aside = guests.filter(|guest| !stations.contains(guest)).collect();
        self.here.wake_machines(stations, bystanders)
    }

    /// Has all guests go on.
    ///
    /// # Errors
    /// As [`Hosts::wake`].
    pub fn wake_all(&mut self) -> Result<(), Away> {
        self.wake(&self.others.iter().map(|other| other.id).collect(), &BTreeSet::new())
    }

    /// Looks at each host. `asks` says what at, for each of them.
    ///
    /// # Errors
    /// The error of the first host that does not have what `asks` wants of it, or that `asks` does
    /// not mention.
    pub fn look(&mut self, mut asks: BTreeMap<HostId, Ask>) -> Result<FactsByHost, LookError> {
        let mut ask = |id| asks.remove(&id).ok_or(NotFound::Host(id));
        let mut facts = FactsByHost::from(self.here.look(&ask(HostId::HERE)?)?);
        for other in &mut self.others {
            facts = facts.and(other.id, other.host.look(&ask(other.id)?)?);
        }
        Ok(facts)
    }

    /// Carries out steps, in order, each on its host.
    ///
    /// # Errors
    /// Of the first step that fails. Its host has put back what it did; [`Hosts::put_back`] sees
    /// to the others.
    pub fn apply(&mut self, steps: &[Step]) -> Result<(), ApplyError> {
        for same in steps.chunk_by(|one, next| one.place.host == next.place.host) {
            self.at(same[0].place.host)?.apply(same)?;
        }
        Ok(())
    }

    /// Asks each question of its host, and gives the answers in order.
    ///
    /// # Errors
    /// Of the first one that is not answered.
    pub fn read_back(&mut self, questions: &[Question]) -> Result<Vec<ReadBack>, ApplyError> {
        let mut answers = Vec::with_capacity(questions.len());
        for same in questions.chunk_by(|one, next| one.host == next.host) {
            let commands: Vec<_> = same.iter().map(|question| question.command.clone()).collect();
            let says = self.at(same[0].host)?.read_back(&commands)?;
            // A host is asked by commands alone: what an answer is about is known here.
            let about = same.iter().map(|question| question.qdiscs_of.clone());
            answers.extend(says.into_iter().zip(about).map(|(says, qdiscs_of)| ReadBack { qdiscs_of, ..says }));
        }
        Ok(answers)
    }

    /// Reads what each host does, except those aside. `what` says what is read there. Before a
    /// trial it reads this machine last, and after the trial it reads this machine first, so that
    /// what this machine does to talk with the others does not count for the trial.
    ///
    /// # Errors
    /// If one cannot be asked any more: which.
    pub fn observe(
        &mut self,
        mut what: impl FnMut(HostId) -> Observe,
    ) -> Result<BTreeMap<HostId, Observed>, (HostId, Away)> {
        let mut ids = self.awake();
        let mut observed = BTreeMap::new();
        let mut asked: BTreeMap<HostId, Observe> = ids.iter().map(|id| (*id, what(*id))).collect();
        if asked.values().all(|what| what.moment == tardy_host::state::Moment::Before) {
            ids.reverse();
        }
        for id in ids {
            if let Some(what) = asked.remove(&id) {
                let host = self.at(id).map_err(|none| (id, Away { host: id.to_string(), says: none.to_string() }))?;
                observed.insert(id, host.observe(&what).map_err(|away| (id, away))?);
            }
        }
        Ok(observed)
    }

    /// Tells each other host that it will hear at least once in that time.
    ///
    /// # Errors
    /// Of the first one that cannot be asked any more.
    pub fn watch(&mut self, patience: Duration) -> Result<(), Away> {
        let awake = self.others.iter_mut().filter(|other| !self.aside.contains(&other.id));
        awake.into_iter().try_for_each(|other| other.host.watch(patience))
    }

    /// Ends on each host what programs of loads have left behind.
    pub fn end_leftovers(&mut self) {
        self.here.end_leftovers();
        let awake = self.others.iter_mut().filter(|other| !self.aside.contains(&other.id));
        awake.for_each(|other| other.host.end_leftovers());
    }

    /// What was applied and started on each host until now stays until [`Hosts::end`].
    ///
    /// # Errors
    /// Of the first host that cannot be asked any more.
    pub fn keep(&mut self) -> Result<(), Away> {
        self.all().try_for_each(|host| host.keep())
    }

    /// Puts back what was done on each host and is not kept. Nothing was done on those aside. A
    /// host where that fails does not keep the others from it.
    ///
    /// # Errors
    /// The first one.
    pub fn put_back(&mut self) -> Result<PutBack, UndoError> {
        let aside = self.aside.clone();
        self.each_puts_back(|id| !aside.contains(&id), |host| host.put_back())
    }

    /// Puts back on each host also what was kept.
    ///
    /// # Errors
    /// As [`Hosts::put_back`].
    pub fn end(&mut self) -> Result<PutBack, UndoError> {
        self.each_puts_back(|_| true, |host| host.end())
    }

    fn each_puts_back(
        &mut self,
        is_meant: impl Fn(HostId) -> bool,
        each: impl Fn(&mut (dyn Host + 'h)) -> Result<PutBack, UndoError>,
    ) -> Result<PutBack, UndoError> {
        let (mut all, mut failed) = (PutBack::default(), None);
        let others = self.others.iter_mut().filter(|other| is_meant(other.id)).map(|other| &mut *other.host);
        for host in std::iter::once::<&mut (dyn Host + 'h)>(self.here).chain(others).rev() {
            match each(host) {
                Ok(put_back) => all.add(put_back),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        failed.map_or(Ok(all), Err)
    }

    /// The commands that were run since the last call. Those of other hosts are none for this
    /// machine's shell.
    pub fn ran(&mut self) -> Vec<Event> {
        let mut all = self.here.ran();
        all.extend(self.others.iter_mut().flat_map(|other| other.host.ran()).map(Event::of_elsewhere));
        all
    }
}
